# Compile options that folders share, as interface targets.

add_library(plumb_headers INTERFACE)
target_include_directories(plumb_headers INTERFACE ${PROJECT_SOURCE_DIR}/include)

# -Wconversion without -Wsign-conversion: the second asks for casts that hide more than they show.
add_library(plumb_warnings INTERFACE)
target_compile_options(plumb_warnings INTERFACE
    -Wall -Wextra $<$<NOT:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wshadow> -Wconversion -Wno-sign-conversion -Wundef -Wpointer-arith -Wwrite-strings
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>)

# Not under a sanitizer: what the compiler then warns about is often its own instrumentation.
if(NOT PLUMB_SANITIZE)
    target_compile_options(plumb_warnings INTERFACE -Werror)
endif()

# Code that ends up inside applications: no C++ run-time library, thread-local storage without calls into the
# loader, nothing exported that does not say so. No stack protector, which distributions' flags ask for: its word is thread-local
# data, and the update signal may come to threads that have none (libtrace/thread_data.cc).
add_library(plumb_runtime_options INTERFACE)
target_compile_options(plumb_runtime_options INTERFACE
    -fvisibility=hidden -ftls-model=initial-exec -fno-plt -fno-stack-protector $<$<CONFIG:Release,RelWithDebInfo>:-O3>
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

# clang before 19 says it by __has_feature() alone.
if(PLUMB_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    add_compile_options(-D__SANITIZE_ADDRESS__=1)
endif()

# What reads files and memory that others wrote is instrumented for fuzzers.
add_library(plumb_fuzzed INTERFACE)
if(PLUMB_FUZZ)
    if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "PLUMB_FUZZ needs clang: cmake --preset asan")
    endif()
    target_compile_options(plumb_fuzzed INTERFACE -fsanitize=fuzzer-no-link)
endif()

# plumb_units(<target> <count>): with PLUMB_LARGE_UNITS, the target's sources are compiled as about so many units: what they
# have in common is then parsed, instantiated, optimised and checked a few times and not for each of them. Preset dev
# compiles each by itself, so that each includes what it uses. A name may be hidden by one of another file there.
function(plumb_units target count)
    if(PLUMB_LARGE_UNITS)
        get_target_property(sources ${target} SOURCES)
        list(LENGTH sources length)
        math(EXPR batch "(${length} + ${count} - 1) / ${count}")
        set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
        # gcc takes a source that a unit includes for a header, whose types should not use an unnamed namespace.
        if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
            target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
        endif()
    endif()
endfunction()

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
            target_link_options(plumb_link_${object}_static INTERFACE LINKER:--eh-frame-hdr)
            add_library(plumb::${object}_static ALIAS plumb_link_${object}_static)
        endif()
    endforeach()
    foreach(library plumb plumb_static)
        if(TARGET ${library} AND NOT TARGET plumb::${library})
            add_library(plumb::${library} ALIAS ${library})
        endif()
    endforeach()
endfunction()
