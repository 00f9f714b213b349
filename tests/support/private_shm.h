// A test's own /dev/shm: the runtime keeps its files in a fixed place, so tests that write there would see
// each other, and the user's real sessions. The file behind this header gives the process a private mount of
// /dev/shm before any constructor runs; programs it starts inherit it.
#pragma once

namespace plumb::test {

// Pulls that file into the program. Whether the mount is in place; if not (no user namespaces), tests share
// /dev/shm with everything else of the user.
bool has_private_shm();

} // namespace plumb::test
