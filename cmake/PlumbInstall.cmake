# What `cmake --install` puts where. Filled by the targets that exist.
function(plumb_install_all)
endfunction()
