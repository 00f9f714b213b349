#include "consumerd/kernel/module_probe.h"

#include "consumerd/kernel/fetch_program.h"

#include <plumb/abi/kernel_events.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

namespace plumb {
namespace {

bool offset_of(std::string_view text, std::uint64_t& number) {
    const bool is_hex = text.starts_with("0x");
    if (is_hex) text.remove_prefix(2);
    const auto [end, error] = std::from_chars(text.begin(), text.end(), number, is_hex ? 16 : 10);
    return error == std::errc() && end == text.end();
}

/* "vfs_read", "vfs_read+0x10", "nf_tables:nft_do_chain", "0xffffffff81000000" */
Status read_kernel_place(const KernelSelector& selector, plumb_kernel_probe& request) {
    const std::string_view place = selector.event;
    if (place.starts_with("0x") && offset_of(place, request.offset)) return ok();
    const std::size_t plus = place.find('+');
    const std::string_view symbol = place.substr(0, plus);
    if (plus != std::string_view::npos && !offset_of(place.substr(plus + 1), request.offset))
        return Error("{}: {} is no offset into a function.", selector.text, place.substr(plus));
    if (request.offset != 0 && (request.flags & PLUMB_PROBE_RETURN) != 0)
        return Error("{}: a function returns as a whole; a kretprobe has no offset.", selector.text);
    if (symbol.size() >= sizeof(request.symbol))
        return Error("{}: no function of the kernel has so long a name.", selector.text);
    std::copy(symbol.begin(), symbol.end(), request.symbol);
    return ok();
}

EventField address_field(const char* name) {
    EventField field{};
    field.name = name;
    field.type = PLUMB_FIELD_INTEGER;
    field.size = 8;
    field.hex = true;
    return field;
}

} // namespace

Result<ModuleProbe> module_probe(const KernelSelector& selector) {
    ModuleProbe probe{};
    const bool is_return = selector.kind == KernelSelector::Kind::kretprobe;
    probe.request.flags = is_return ? PLUMB_PROBE_RETURN : 0;
    if (Status read = read_kernel_place(selector, probe.request); !read) return read.error();
    auto program = fetch_program(selector.arguments, is_return);
    if (!program) return program.error().with("{}", selector.text);
    probe.request.fetch_count = static_cast<std::uint32_t>(program->fetches.size());
    std::copy(program->fetches.begin(), program->fetches.end(), probe.request.fetches);
    EventDescription& description = probe.description;
    description.provider = selector.system;
    description.name = selector.system + "_" + selector.event;
    description.log_level = PLUMB_DEBUG_SYSTEM;
    if (is_return)
        description.fields = {address_field("__probe_func"), address_field("__probe_ret_ip")};
    else
        description.fields = {address_field("__probe_ip")};
    std::move(program->fields.begin(), program->fields.end(), std::back_inserter(description.fields));
    return probe;
}

Error probe_not_taken(const KernelSelector& selector, int error) {
    switch (error) {
    case ENOENT:
    case EADDRNOTAVAIL:
        return Error("{}: this kernel has no function of that name.", selector.text)
            .hint("`grep NAME /proc/kallsyms` shows what can be probed; inlined functions can not.");
    case EINVAL:
    case EILSEQ:
        return Error("{}: the kernel lets nobody probe there.", selector.text)
            .hint("It is code that probes themselves need, or not where an instruction of it begins.");
    case E2BIG:
        return Error("{}: plumb.ko has {} probes for one recording, and these are more.", selector.text,
                     PLUMB_KERNEL_PROBES_MAX);
    case ENOTTY:
        return Error("{}: the plumb.ko that is loaded knows no probes.", selector.text)
            .hint("It is an older one: `rmmod plumb; modprobe plumb`.");
    case EPERM:
        return Error(
            "{}: plumb.ko takes probes from root (CAP_SYS_ADMIN), where the kernel is not locked down.",
            selector.text);
    default:
        return Error::from_errno(error, "plumb.ko does not take the probe {}", selector.text);
    }
}

} // namespace plumb
