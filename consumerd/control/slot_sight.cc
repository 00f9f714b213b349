/*
 * Whose the slots are, as seen from here: by the number that we have for the process, which is another one than its own where it
 * is in another namespace (base/process_names.h).
 */
#include "base/mapped_file.h"
#include "base/processes.h"
#include "consumerd/control/shared_word.h"
#include "consumerd/control/state.h"

#include <algorithm>

namespace plumb {

namespace {

/* Who is in a claim, and under which number of ours. */
using Whose = std::pair<OwnName, std::uint32_t>;
Whose whose(const ProcessSlot& slot) {
    return {slot.own_name(), slot.process_id()};
}

/* Of slots that know their process by its own number alone, one with another image may be of a process that has ended and had
 * that number, too, in a namespace of its own; or the process has left it by exec(). Which of them is the live one's can not be
 * told, so none is judged. Those from before its start are not meant: they are left over. */
void leave_ambiguous(std::vector<ProcessSlot>& slots) {
    std::map<Whose, std::set<std::uint32_t>> images;
    const auto may_be_its = [](const ProcessSlot& slot) {
        return slot.own_name().space == 0 && slot.process_id() != 0 && slot.is_ready() &&
               is_same_process(slot.process_id(), slot.content.registered_boottime_ns);
    };
    for (const ProcessSlot& slot : slots)
        if (may_be_its(slot)) images[whose(slot)].insert(slot.content.image);
    std::erase_if(images, [](const auto& each) { return each.second.size() < 2; });
    if (images.empty()) return;
    for (ProcessSlot& slot : slots)
        if (images.contains(whose(slot)) && may_be_its(slot)) slot.sight = {};
}

} // namespace

std::vector<ProcessSlot> StateFile::processes() const {
    std::vector<ProcessSlot> taken;
    std::set<std::uint64_t> claims;
    for (std::uint32_t i = 0; i < PLUMB_MAX_PROCESSES; i++) {
        if (load_shared(slot(i).claim) == 0) continue;
        const std::optional<plumb_process> content = copy_of(i);
        if (!content) continue;
        taken.push_back({i, *content, {}});
        claims.insert(content->claim);
    }
    /* Counts come round, and so do inodes: an equal claim made later is somebody else's. */
    std::erase_if(found_, [&](const auto& each) { return !claims.contains(each.first); });
    /* Read behind all claims: who is not in it and not hidden is gone. */
    Look look;
    for (ProcessSlot& slot : taken)
        slot.sight = look_for(slot.content.claim, look);
    leave_ambiguous(taken);
    return taken;
}

std::set<std::uint32_t> left_by_exec(const std::vector<ProcessSlot>& slots) {
    std::map<Whose, const plumb_process*> youngest;
    for (const ProcessSlot& slot : slots) {
        if (!slot.is_ready() || slot.process_id() == 0) continue;
        const plumb_process*& known = youngest[whose(slot)];
        if (known == nullptr || slot.content.registered_boottime_ns > known->registered_boottime_ns)
            known = &slot.content;
    }
    std::set<std::uint32_t> left;
    for (const ProcessSlot& slot : slots) {
        if (!slot.is_ready() || slot.process_id() == 0) continue;
        if (youngest.at(whose(slot))->image != slot.content.image) left.insert(slot.index);
    }
    return left;
}

/* Whether the process that was seen under the number is still there: it may have ended, and the number be another's. */
static bool is_still_called(std::uint32_t process_id, OwnName name) {
    const OwnName now = own_name_of(process_id);
    return now.process_id == name.process_id && (name.space == 0 || now.space == name.space);
}

/* To look for somebody is to read all of /proc; to look after who was seen is to read two files. */
Sight StateFile::look_for(std::uint64_t claim, Look& look) const {
    const OwnName name{PLUMB_CLAIM_SPACE(claim), PLUMB_CLAIM_PROCESS(claim)};
    if (proc_has_other_numbers()) return {}; /* of ours, too, it would tell what is true of others */
    if (name.space != 0 && name.space == own_namespace()) return {Sight::seen, name.process_id};
    constexpr std::uint64_t look_again_ns = 100'000'000;
    const std::uint64_t now_ns = boottime_now_ns();
    const auto known = found_.find(claim);
    if (known != found_.end()) {
        const Sight& sight = known->second.sight;
        if (sight.kind == Sight::seen ? is_still_called(sight.process_id, name)
                                      : now_ns - known->second.looked_ns < look_again_ns)
            return sight;
    }
    if (!look.table) look.table = ProcessTable::read();
    const Sight sight = look.table->look_for(name, [&](std::uint32_t process_id) {
        const auto [asked, is_new] = look.maps_it.try_emplace(process_id);
        if (is_new) asked->second = is_mapped_by(process_id);
        return asked->second;
    });
    found_[claim] = {sight, now_ns};
    return sight;
}

OwnName StateFile::own_name_of(std::uint32_t process_id) const {
    for (const ProcessSlot& slot : processes())
        if (slot.process_id() == process_id) return slot.own_name();
    return plumb::own_name_of(process_id);
}

std::optional<bool> StateFile::mapped_by(std::uint32_t process_id) const {
    const Result<std::vector<MappedFile>> files = mapped_files(process_id);
    if (!files || files->empty())
        return {}; /* none that runs programs: it ends, or is one of the kernel's threads */
    return std::any_of(files->begin(), files->end(), [&](const MappedFile& file) {
        return file.device == device_ && file.inode == inode_;
    });
}

bool StateFile::is_predecessor_mapped_by(std::uint32_t process_id) const {
    const Result<std::vector<MappedFile>> files = mapped_files(process_id);
    if (!files) return false;
    /* "/plumb-0/state", wherever /dev/shm is mounted there; or "/plumb-0/#17", of who made it. On the same file system, so it
     * is not that of a container. */
    const std::string whole = path();
    const std::size_t end = whole.rfind('/');
    const std::string name = whole.substr(whole.rfind('/', end - 1)),
                      made = name.substr(0, name.rfind('/') + 1) + '#';
    bool is_found = false;
    for (const MappedFile& file : *files) {
        if (file.device != device_) continue;
        if (file.inode == inode_) return false;
        const std::size_t last = file.path.rfind('/') + 1;
        is_found |=
            file.removed && (file.path.ends_with(name) || file.path.substr(0, last + 1).ends_with(made));
    }
    return is_found;
}

} // namespace plumb
