# Names that the C library's and the kernel's headers give to numbers, as tables of our own source: the preprocessor says
# which macros the headers define, the compiler what they are worth. So there is no list of ours that gets old.

# plumb_macros(<variable> <header>...): the names of all macros without arguments that these headers define, one header
# after the other; headers that are missing count for nothing.
function(plumb_macros variable)
    set(source "#define _GNU_SOURCE 1\n")
    foreach(header ${ARGN})
        string(APPEND source "#if __has_include(<${header}>)\n#include <${header}>\n#endif\n")
    endforeach()
    set(file ${CMAKE_CURRENT_BINARY_DIR}/plumb_macros.c)
    file(WRITE ${file} "${source}")
    execute_process(COMMAND ${CMAKE_C_COMPILER} -E -dM ${file} OUTPUT_VARIABLE lines RESULT_VARIABLE failed)
    if(failed)
        message(FATAL_ERROR "The preprocessor does not take ${ARGN}")
    endif()
    string(REGEX MATCHALL "#define [A-Za-z_0-9]+ [^\n]+" lines "${lines}")
    list(TRANSFORM lines REPLACE "^#define ([A-Za-z_0-9]+) .*$" "\\1")
    list(SORT lines)
    set(${variable} ${lines} PARENT_SCOPE)
endfunction()

# Left as it is where nothing changed, so that nothing is compiled again.
function(plumb_write_if_other file content)
    if(EXISTS ${file})
        file(READ ${file} before)
        if(before STREQUAL content)
            return()
        endif()
    endif()
    file(WRITE ${file} "${content}")
endfunction()

# plumb_syscall_numbers(<target>): adds a source that defines the table of consumerd/kernel/syscall_arguments.h.
function(plumb_syscall_numbers target)
    plumb_macros(macros asm/unistd.h)
    list(FILTER macros INCLUDE REGEX "^__NR_")
    set(content "#include \"consumerd/kernel/syscall_arguments.h\"\n\n#include <asm/unistd.h>\n\n")
    string(APPEND content "namespace plumb {\n\nconst std::vector<SyscallNumber> syscall_numbers = {\n")
    foreach(macro ${macros})
        string(SUBSTRING ${macro} 5 -1 name)
        string(APPEND content "    {\"${name}\", ${macro}},\n")
    endforeach()
    string(APPEND content "};\n\n} // namespace plumb\n")
    set(file ${CMAKE_CURRENT_BINARY_DIR}/syscall_numbers.cc)
    plumb_write_if_other(${file} "${content}")
    target_sources(${target} PRIVATE ${file})
endfunction()
