# Compile options that folders share, as interface targets.

add_library(plumb_headers INTERFACE)
target_include_directories(plumb_headers INTERFACE ${PROJECT_SOURCE_DIR}/include)

# -Wconversion without -Wsign-conversion: the second asks for casts that hide more than they show.
add_library(plumb_warnings INTERFACE)
target_compile_options(plumb_warnings INTERFACE
    -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wundef -Wpointer-arith -Wwrite-strings
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>)

# Not under a sanitizer: what the compiler then warns about is often its own instrumentation.
if(NOT PLUMB_SANITIZE AND NOT PLUMB_FUZZ)
    target_compile_options(plumb_warnings INTERFACE -Werror)
endif()

# Code that ends up inside applications: no C++ run-time library, thread-local storage without calls into the
# loader, nothing exported that does not say so.
add_library(plumb_runtime_options INTERFACE)
target_compile_options(plumb_runtime_options INTERFACE
    -fvisibility=hidden -ftls-model=initial-exec -fno-plt $<$<CONFIG:Release,RelWithDebInfo>:-O3>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti -fno-threadsafe-statics
                              -fvisibility-inlines-hidden>)
target_link_libraries(plumb_runtime_options INTERFACE plumb_headers plumb_warnings)

if(PLUMB_SANITIZE)
    add_compile_options(-fsanitize=${PLUMB_SANITIZE} -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${PLUMB_SANITIZE})
    if(PLUMB_SANITIZE MATCHES undefined)
        add_compile_options(-fno-sanitize-recover=undefined)
    endif()
endif()

if(PLUMB_FUZZ)
    if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "PLUMB_FUZZ needs clang: cmake --preset fuzz")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
                        -fno-omit-frame-pointer)
    add_link_options(-fsanitize=address,undefined)
endif()

# plumb::tp-sync, plumb::tp-async, plumb::tp-async-lib: the object and libplumb on the link line, by the same
# names that find_package(plumb) gives, and with the same variants for static executables.
function(plumb_define_object_targets)
    foreach(object tp-sync tp-async tp-async-lib)
        if(TARGET ${object} AND NOT TARGET plumb::${object})
            add_library(plumb_link_${object} INTERFACE)
            target_link_libraries(plumb_link_${object} INTERFACE $<TARGET_OBJECTS:${object}> plumb)
            add_library(plumb::${object} ALIAS plumb_link_${object})
            add_library(plumb_link_${object}_static INTERFACE)
            target_link_libraries(plumb_link_${object}_static INTERFACE $<TARGET_OBJECTS:${object}> plumb_static)
            add_library(plumb::${object}_static ALIAS plumb_link_${object}_static)
        endif()
    endforeach()
    foreach(library plumb plumb_static)
        if(TARGET ${library} AND NOT TARGET plumb::${library})
            add_library(plumb::${library} ALIAS ${library})
        endif()
    endforeach()
endfunction()
