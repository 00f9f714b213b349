/*
 * Hits of kprobes that the kernel did not record: it keeps a place for each call that a kretprobe waits for, and has
 * only so many; and it leaves out a hit inside of another. It counts them, for all processes together.
 *
 * An event that does not fit into a page of the kernel's buffers, since texts in it are long, is not recorded either, and not
 * counted; but of programs' probes the kernel counts all hits.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_PROBE_MISSES_H
#define PLUMB_CONSUMERD_KERNEL_PROBE_MISSES_H

#include <cstdint>
#include <map>
#include <string>

namespace plumb {

/* Of the probes of `group`: "r:group/name place" in `events` (kprobe_events) says whose line " name hits misses" in
 * `profile` (kprobe_profile) is, since both have the same order. Lines that do not match are left out. */
std::uint64_t probe_misses(const std::string& events, const std::string& profile, const std::string& group);

/* How often each probe of `group` was hit, by its name: the same of uprobe_events and uprobe_profile, whose lines are
 * " file name hits". */
std::map<std::string, std::uint64_t> user_probe_hits(const std::string& events, const std::string& profile,
                                                     const std::string& group);

} // namespace plumb

#endif
