# What the ready-made probes (probes/) have in common.

# plumb_probe(NAME SOURCE...): the shared library libNAME.so, which exports what NAME.map names, is never unloaded, and
# brings events into a program that may have none.
function(plumb_probe name)
    add_library(${name} SHARED ${ARGN})
    target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
    # pthread_cleanup_push() then needs no personality routine, and the library no libgcc_s.
    target_compile_options(${name} PRIVATE -fno-exceptions)
    target_link_libraries(${name} PRIVATE plumb_runtime_options plumb::tp-async-lib ${CMAKE_DL_LIBS})
    target_link_options(${name} PRIVATE
        "LINKER:--version-script=${CMAKE_CURRENT_SOURCE_DIR}/${name}.map" "LINKER:-z,now" "LINKER:-z,nodelete")
    if(NOT PLUMB_SANITIZE) # whose run-time library comes with the executable
        target_link_options(${name} PRIVATE "LINKER:-z,defs")
    endif()
    set_target_properties(${name} PROPERTIES LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}.map)
endfunction()

# plumb_find_jdk(): PLUMB_JVMTI_INCLUDE, PLUMB_JAVAC, PLUMB_JAR; what is not there is ...-NOTFOUND.
function(plumb_find_jdk)
    file(GLOB includes /usr/lib/jvm/default-java/include /usr/lib/jvm/java-17-openjdk-*/include /usr/lib/jvm/*/include)
    find_path(PLUMB_JVMTI_INCLUDE jvmti.h HINTS $ENV{JAVA_HOME}/include ${includes} DOC "Folder of a JDK's jvmti.h")
    foreach(tool javac jar)
        string(TOUPPER ${tool} upper)
        find_program(PLUMB_${upper} ${tool} HINTS $ENV{JAVA_HOME}/bin ${PLUMB_JVMTI_INCLUDE}/../bin)
    endforeach()
endfunction()
