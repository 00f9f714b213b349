/*
 * Probes of a session: events of the kernel that are made for it, in a group of its own, and are taken away with it.
 *
 *   "kprobe:vfs_read"        "p:plumb_12_345/kprobe_vfs_read vfs_read"
 *   "uprobe:/bin/x:main"     "p:plumb_12_345/uprobe_main /bin/x:0x1234"
 *   "usdt:/bin/x:shop:buy"   "p:plumb_12_345/usdt_shop_buy /bin/x:0x1234(0x5678) arg1=%di:s32", shop:buy in the trace; the
 *                            second place is that of a counter, which the kernel raises while the probe is on
 *
 * Names in tracefs are distinct, short, and of few letters. In the trace they are those that people know: two functions of
 * one name in two files have their file's in front.
 */
#include "consumerd/kernel/fetch_arguments.h"
#include "consumerd/kernel/kernel_session.h"
#include "consumerd/kernel/probe_misses.h"
#include "consumerd/kernel/probe_place.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

namespace plumb {
namespace {

bool is_of_program(const KernelSelector& selector) {
    return selector.kind != KernelSelector::Kind::kprobe && selector.kind != KernelSelector::Kind::kretprobe;
}

/* That are read from memory, as long as they are. */
bool has_texts(const std::string& arguments) {
    std::istringstream words(arguments);
    for (std::string word; words >> word;)
        if (word.ends_with(":string") || word.ends_with(":ustring")) return true;
    return false;
}

/* sysctl kernel.panic_on_warn */
bool is_ended_by_warnings() {
    const auto text = read_small_file("/proc/sys/kernel/panic_on_warn");
    return text && text->starts_with('1');
}

/* The kernel warns (WARN_ON_ONCE) of a hit whose arguments have more than a page: how long texts are, is the program's. */
Status check_texts(const KernelSelector& selector, const std::vector<ProbePlace>& places) {
    const bool any = std::any_of(places.begin(), places.end(),
                                 [](const ProbePlace& place) { return has_texts(place.arguments); });
    if (!any || !is_of_program(selector) || !is_ended_by_warnings()) return ok();
    return Error("{}: the kernel warns of a call whose texts have more than 4,096 bytes, and this machine is "
                 "set to end at a warning.",
                 selector.text)
        .hint("Record addresses in place of texts, or set `sysctl kernel.panic_on_warn=0`.");
}

/* Another one, or another content, is seen by one of these. Of what can not be looked at nothing is known. */
struct FileVersion {
    dev_t device = 0;
    ino_t inode = 0;
    off_t bytes = 0;
    std::int64_t changed_s = 0, changed_ns = 0;
    bool operator==(const FileVersion&) const = default;
};

FileVersion version_of(const std::string& path) {
    struct stat info {};
    if (path.empty() || ::stat(path.c_str(), &info) != 0) return {};
    return {info.st_dev, info.st_ino, info.st_size, info.st_ctim.tv_sec, info.st_ctim.tv_nsec};
}

/* We read the file, and the kernel looks at its name once more for each probe: in another one they would stand anywhere. So far none is
 * on. */
Status check_version(const KernelSelector& selector, const FileVersion& before) {
    if (!is_of_program(selector) || version_of(selector.file) == before) return ok();
    return Error("{}: {} was replaced, or written to, while its probes were made.", selector.text,
                 selector.file)
        .hint("Record again when it is complete.");
}

} // namespace

std::string KernelSession::free_raw_name(const std::string& wanted) const {
    const auto is_taken = [&](const std::string& raw_name) {
        return std::any_of(made_probes_.begin(), made_probes_.end(),
                           [&](const ProbePlace& made) { return made.raw_name == raw_name; });
    };
    std::string raw_name = wanted;
    for (std::size_t number = 2; is_taken(raw_name); number++)
        raw_name = another_raw_name(wanted, number);
    return raw_name;
}

Error KernelSession::not_taken(const KernelSelector& selector, const std::string& command,
                               const Error& error) const {
    const auto log = read_small_file(root_ + "/error_log");
    const std::string why = log ? refusal_in_log(*log, command) : "";
    const Error described = why.empty()
                                ? error.with("The kernel does not take the probe {}", selector.text)
                                : Error("The kernel does not take the probe {}: {}", selector.text, why);
    if (!selector.arguments.empty() && why.find('\n') != std::string::npos)
        return described.hint(
            "\nArguments are written in the kernel's syntax: registers (%di), what they point to "
            "(+8(%di):u32, +0(%si):string), $retval, and types u8 to u64, s8 to s64, x8 to x64.");
    if (!is_of_program(selector))
        return described.hint(
            "`grep NAME /proc/kallsyms` shows what can be probed; inlined functions can not.");
    return described.hint(
        "The file must be a regular one that can be run or loaded; and where somebody else has a probe "
        "at that place, both must name the same semaphore.");
}

Result<std::string> KernelSession::make_probe(const KernelSelector& selector, const ProbePlace& place) {
    const std::string what = place.place + (place.arguments.empty() ? "" : " " + place.arguments);
    for (const ProbePlace& made : made_probes_)
        if (made.type == place.type && made.place == place.place && made.arguments == place.arguments &&
            made.provider == place.provider && made.name == place.name)
            return made.raw_name;
    const std::string raw_name = free_raw_name(place.raw_name);
    const std::string command = fmt::format("{}:{}/{} {}", place.type, name_, raw_name, what);
    if (Status made = write_tracefs(root_ + "/dynamic_events", command, true); !made)
        return not_taken(selector, command, made.error());
    probes_.push_back(name_ + "/" + raw_name);
    made_probes_.push_back(place);
    made_probes_.back().raw_name = raw_name;
    return raw_name;
}

Status KernelSession::add_probes(const KernelSelector& selector) {
    const bool is_user = is_of_program(selector);
    if (access((root_ + (is_user ? "/uprobe_events" : "/kprobe_events")).c_str(), F_OK) != 0)
        return Error("This kernel has no {}s.", is_user ? "uprobe" : "kprobe")
            .hint("It was built without CONFIG_{}_EVENTS.", is_user ? "UPROBE" : "KPROBE");
    const FileVersion before = version_of(selector.file);
    const auto places = places_of(selector, notes_);
    if (!places) return places.error();
    if (Status bearable = check_texts(selector, *places); !bearable) return bearable;
    std::vector<TracefsEvent> made;
    for (const ProbePlace& place : *places) {
        const auto raw_name = make_probe(selector, place);
        if (!raw_name) return raw_name.error();
        made.push_back({name_, *raw_name});
    }
    if (Status same = check_version(selector, before); !same) return same;
    if (Status on = switch_on(made, selector); !on) return on;
    constexpr std::size_t many = 100;
    if (places->size() > many)
        notes_.push_back(fmt::format(
            "{} stands for {} probes; at the end, the kernel takes some 0.05 s to take each away.",
            selector.text, places->size()));
    return ok();
}

/* Of those that return, the kernel counts the calls, of which some may not have returned. */
std::map<std::uint16_t, std::uint64_t> KernelSession::all_text_probe_hits() const {
    std::map<std::uint16_t, std::uint64_t> found;
    const auto is_counted = [&](const ProbePlace& probe) {
        const auto filters = filters_.find(name_ + "/" + probe.raw_name);
        return probe.type == "p" && !probe.file.empty() && has_texts(probe.arguments) &&
               (filters == filters_.end() || filters->second.empty());
    };
    if (std::none_of(made_probes_.begin(), made_probes_.end(), is_counted)) return found;
    const auto events = read_small_file(root_ + "/uprobe_events");
    const auto profile = read_small_file(root_ + "/uprobe_profile");
    const auto hits = user_probe_hits(events.value_or(""), profile.value_or(""), name_);
    for (const ProbePlace& probe : made_probes_)
        for (const KernelEvent& event : events_)
            if (const auto counted = hits.find(probe.raw_name); is_counted(probe) && counted != hits.end() &&
                                                                event.system == name_ &&
                                                                event.raw_name == probe.raw_name)
                found[event.id] = counted->second;
    return found;
}

void KernelSession::count_text_probe_hits() {
    const auto before = std::exchange(text_probe_hits_before_, {});
    if (before.empty()) return;
    text_probe_hits_ = all_text_probe_hits();
    for (auto& [id, hits] : text_probe_hits_)
        if (const auto counted = before.find(id); counted != before.end())
            hits -= std::min(hits, counted->second);
}

/* The kernel knows no floating point: it read the bytes as an integer. */
static void name_floats(EventDescription& description, const std::vector<std::string>& floats) {
    for (EventField& field : description.fields) {
        const bool is_float = std::find(floats.begin(), floats.end(), field.name) != floats.end();
        if (!is_float || field.type != PLUMB_FIELD_INTEGER || (field.size != 4 && field.size != 8)) continue;
        field.type = PLUMB_FIELD_FLOAT;
        field.is_signed = field.hex = false;
    }
}

/* The last part of a path that none of the others has: "x.so", or "a/x.so" beside "/b/x.so"; all of it, if need be. */
static std::string telling_part(const std::string& path, const std::set<std::string>& others) {
    for (std::size_t slash = path.rfind('/'); slash != std::string::npos && slash != 0;
         slash = path.rfind('/', slash - 1)) {
        const std::string with_slash = path.substr(slash);
        if (std::none_of(others.begin(), others.end(),
                         [&](const std::string& other) { return other.ends_with(with_slash); }))
            return with_slash.substr(1);
    }
    return path;
}

/* "uprobe_f" of two files -> "uprobe_liba.so:f" and "uprobe_libb.so:f". */
void KernelSession::name_probes() {
    for (const ProbePlace& probe : made_probes_) {
        std::string name = probe.name;
        std::set<std::string> other_files;
        for (const ProbePlace& other : made_probes_)
            if (other.name == probe.name && probe.provider.empty() && other.provider.empty() &&
                other.file != probe.file)
                other_files.insert(other.file);
        if (!other_files.empty())
            name.insert(name.find('_') + 1, telling_part(probe.file, other_files) + ":");
        for (KernelEvent& event : events_) {
            if (event.system != name_ || event.raw_name != probe.raw_name) continue;
            event.description.provider = probe.provider;
            event.description.name = name;
            name_floats(event.description, probe.floats);
        }
    }
}

} // namespace plumb
