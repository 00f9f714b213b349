# What `cmake --install` puts where:
#
#   include/plumb/...                     headers
#   lib/libplumb.so.*, lib/libplumb.a     the runtime
#   lib/plumb/tp-sync.o ...               the objects that applications link, by these names
#   lib/plumb/libplumb-pthread.so         probes, for plumb record --preload
#   lib/plumb/libplumb-jvm.so             the agent for Java, for plumb record --jvm; where a JDK was at hand
#   lib/plumb/java/plumb.jar              typed events of Java code, and its logging; beside its libplumb-java.so; where a JDK was at hand
#   lib/plumb/python/plumb_logging.py     Python's logging, beside its libplumb-python.so
#   lib/plumb/lttng/liblttng-ust*.so.1    stand in for LTTng-UST where libplumb-lttng.so is preloaded
#   lib/plumb/plumb-init                  for plumb boot
#   lib/cmake/plumb/                      find_package(plumb)
#   lib/pkgconfig/plumb*.pc               plumb, plumb-sync, plumb-async, plumb-async-lib
#   bin/plumb                             the command
#   bin/plumb-consumerd                   keeps sessions; lib/systemd/... its units
#   lib/libplumb-control.so.*             controls them: <plumb/session.h>, pkg-config plumb-control
#   share/bash-completion/..., share/zsh/site-functions, share/fish/vendor_completions.d    its completions
#   share/man/man1, share/man/man7        its manual, made of the docs
#   share/doc/plumb/                      README.md, LICENSE, and docs/: its links lead there as in the source
#   src/plumb-VERSION/                    the kernel module's source, for DKMS (the component `module`, too)
include(CMakePackageConfigHelpers)

set(PLUMB_OBJECTS_DIR ${CMAKE_INSTALL_LIBDIR}/plumb)

# Targets, without an export set: object files by name have no place in one, so the package file is written
# by hand (cmake/templates/plumb-config.cmake.in).
function(plumb_install_all)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/plumb DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
            FILES_MATCHING PATTERN "*.h")
    foreach(library plumb plumb_static)
        if(TARGET ${library})
            install(TARGETS ${library} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
                                       ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
        endif()
    endforeach()
    foreach(object tp-sync tp-async tp-async-lib)
        if(TARGET ${object})
            install(FILES $<TARGET_OBJECTS:${object}> DESTINATION ${PLUMB_OBJECTS_DIR} RENAME ${object}.o)
        endif()
    endforeach()
    file(RELATIVE_PATH up /${PLUMB_OBJECTS_DIR} /${CMAKE_INSTALL_LIBDIR})
    foreach(probe plumb-pthread plumb-jvm plumb-lttng plumb-python plumb-java)
        if(TARGET ${probe})
            set_target_properties(${probe} PROPERTIES INSTALL_RPATH "$ORIGIN/${up}")
            install(TARGETS ${probe} LIBRARY DESTINATION ${PLUMB_OBJECTS_DIR} NAMELINK_SKIP)
        endif()
    endforeach()
    if(TARGET plumb-jar)
        get_target_property(jar plumb-jar PLUMB_JAR_FILE)
        install(FILES ${jar} DESTINATION ${PLUMB_OBJECTS_DIR}/java)
    endif()
    if(TARGET plumb-python)
        install(FILES ${PROJECT_SOURCE_DIR}/probes/python/plumb_logging.py DESTINATION ${PLUMB_OBJECTS_DIR}/python)
    endif()
    if(TARGET plumb-lttng)
        get_property(stand_ins GLOBAL PROPERTY plumb_lttng_stand_ins)
        set_target_properties(${stand_ins} PROPERTIES INSTALL_RPATH "$ORIGIN/..;$ORIGIN/../${up}")
        install(TARGETS ${stand_ins} LIBRARY DESTINATION ${PLUMB_OBJECTS_DIR}/lttng NAMELINK_SKIP)
    endif()
    if(TARGET plumb-init)
        install(TARGETS plumb-init RUNTIME DESTINATION ${PLUMB_OBJECTS_DIR})
    endif()
    if(TARGET plumb_cli)
        install(TARGETS plumb_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
        install(FILES ${PROJECT_BINARY_DIR}/cli/completion/plumb
                DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
        install(FILES ${PROJECT_BINARY_DIR}/cli/completion/_plumb
                DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
        install(FILES ${PROJECT_BINARY_DIR}/cli/completion/plumb.fish
                DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
    endif()
    if(TARGET plumb_daemon)
        install(TARGETS plumb_daemon RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
        install(TARGETS plumb_control LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
        foreach(manager system user)
            install(FILES ${PROJECT_SOURCE_DIR}/consumerd/daemon/systemd/${manager}/plumb-consumerd.service
                          ${PROJECT_SOURCE_DIR}/consumerd/daemon/systemd/plumb-consumerd.socket
                    DESTINATION lib/systemd/${manager})
        endforeach()
    endif()
    if(TARGET plumb_manual)
        foreach(section 1 7)
            install(DIRECTORY ${PROJECT_BINARY_DIR}/cli/manual/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section}
                    FILES_MATCHING PATTERN "*.${section}")
        endforeach()
    endif()
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
    install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE
            DESTINATION ${CMAKE_INSTALL_DOCDIR})

    set(source src/${PROJECT_NAME}-${PROJECT_VERSION})
    configure_file(${PROJECT_SOURCE_DIR}/kmod/dkms.conf.in ${PROJECT_BINARY_DIR}/dkms.conf @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/dkms.conf DESTINATION ${source} COMPONENT module)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/plumb DESTINATION ${source}/include COMPONENT module
            FILES_MATCHING PATTERN "*.h")
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/kmod DESTINATION ${source} COMPONENT module
            FILES_MATCHING PATTERN "*.c" PATTERN "*.h" PATTERN Kbuild PATTERN Makefile PATTERN "*.mod.c" EXCLUDE)

    set(templates ${PROJECT_SOURCE_DIR}/cmake/templates)
    configure_package_config_file(${templates}/plumb-config.cmake.in ${PROJECT_BINARY_DIR}/plumb-config.cmake
        INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plumb
        PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR PLUMB_OBJECTS_DIR)
    write_basic_package_version_file(${PROJECT_BINARY_DIR}/plumb-config-version.cmake
        COMPATIBILITY SameMinorVersion)
    install(FILES ${PROJECT_BINARY_DIR}/plumb-config.cmake ${PROJECT_BINARY_DIR}/plumb-config-version.cmake
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plumb)

    # The prefix of a .pc file is found from where the file is, so an installation can be moved, and
    # `cmake --install --prefix` needs no new configuration.
    file(RELATIVE_PATH PLUMB_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
    string(REGEX REPLACE "/$" "" PLUMB_PC_TO_PREFIX "${PLUMB_PC_TO_PREFIX}")
    configure_file(${templates}/plumb-control.pc.in ${PROJECT_BINARY_DIR}/plumb-control.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/plumb-control.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    foreach(package plumb sync async async-lib)
        if(package STREQUAL plumb)
            configure_file(${templates}/plumb.pc.in ${PROJECT_BINARY_DIR}/plumb.pc @ONLY)
            install(FILES ${PROJECT_BINARY_DIR}/plumb.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
        else()
            set(PLUMB_OBJECT tp-${package})
            configure_file(${templates}/plumb-object.pc.in ${PROJECT_BINARY_DIR}/plumb-${package}.pc @ONLY)
            install(FILES ${PROJECT_BINARY_DIR}/plumb-${package}.pc
                    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
        endif()
    endforeach()
endfunction()
