#include "consumerd/kernel/probe_place.h"

#include "base/elf_file.h"
#include "consumerd/kernel/marker_place.h"
#include "consumerd/probe/chosen_function.h"
#include "consumerd/probe/first_loop.h"
#include "consumerd/probe/first_nop.h"
#include "consumerd/probe/function_choice.h"
#include "consumerd/probe/probed_instruction.h"
#include "consumerd/probe/unwinding.h"
#include "consumerd/probe/vector_instruction.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

namespace plumb {
namespace {

using ProbeKind = KernelSelector::Kind;

constexpr std::size_t raw_name_max = 56; /* of 63, for "_1000" behind it */

bool is_return(ProbeKind kind) {
    return kind == ProbeKind::kretprobe || kind == ProbeKind::uretprobe;
}

/* The kernel takes what has no slash for a symbol of its own, and reads up to the first space, or "#". */
Result<std::string> absolute_path(const std::string& file) {
    std::error_code unknown;
    const std::string path = std::filesystem::absolute(file, unknown);
    if (path.find_first_of(" \t\n\v\f\r#") != std::string::npos)
        return Error("The kernel takes no file for a uprobe whose name has spaces or \"#\" in it: {}.", path)
            .hint("Name it by a symbolic link without.");
    return unknown ? file : path;
}

/* Of a function that is chosen when programs start, of the chosen one. */
Result<std::uint64_t> wanted_address(const std::string& path, const FunctionPlace& place) {
    if (!place.is_chosen) return place.address;
    const auto chosen = chosen_function(path, place.function);
    return chosen ? Result<std::uint64_t>(*chosen + place.offset) : chosen;
}

Result<std::uint64_t> address_to_probe(const ElfFile& elf, const FirstNops& nops, std::uint64_t wanted,
                                       bool is_begin) {
    const auto begin = is_begin ? nops.behind(wanted) : Result<std::uint64_t>(wanted);
    if (!begin) return begin;
    const auto address = behind_vector_instructions(elf, *begin);
    if (!address) return address;
    const Status good = check_probed_instruction(elf, *address);
    return good ? address : good.error();
}

Status check_begin(const KernelSelector& selector, const FunctionPlace& place) {
    if (selector.kind != ProbeKind::uretprobe || place.is_begin) return ok();
    return Error("{}: no function begins at {}.", selector.text, place.name)
        .hint("A uretprobe takes what the stack's top holds there for a return address, which elsewhere "
              "would break the program.");
}

/* What keeps its return address for later or looks at it, comes back twice, has none, or is jumped to where the stack's top is
 * something else. C libraries have other names for some of these, with underscores in front. */
bool returns_otherwise(const std::string& function) {
    static const std::set<std::string_view> names{"_start",          "_dlstart",  "_dl_start_user",
                                                  "__start_context", "__restore", "__restore_rt"};
    static const std::set<std::string_view> named_otherwise{
        "setjmp", "sigsetjmp", "sigsetjmp_cancel", "getcontext", "setcontext", "swapcontext", "makecontext",
        "vfork", "libc_vfork", "clone", "clone2", "clone3", "longjmp", "siglongjmp", "longjmp_chk",
        "libc_longjmp", "libc_siglongjmp",
        /* They look at who calls them, or at the stack. */
        "dlsym", "dlvsym", "dlopen", "dlmopen", "dl_iterate_phdr", "backtrace", "mcount", "fentry",
        /* They go from one stack to another, or come back twice. */
        "morestack", "ITM_beginTransaction", "jump_fcontext", "ontop_fcontext"};
    const std::string_view name = std::string_view(function).substr(0, function.find('@'));
    static const std::set<std::string_view> starts{"_dl_runtime_resolve", "_dl_runtime_profile", "_Unwind_",
                                                   "uw_init_context", "uw_install_context"};
    const std::size_t begin = std::min(name.find_first_not_of('_'), name.size());
    const std::size_t end = name.find_last_not_of('_') + 1; /* __fentry__ */
    return names.contains(name) ||
           std::any_of(starts.begin(), starts.end(), [&](auto start) { return name.starts_with(start); }) ||
           named_otherwise.contains(name.substr(begin, end - std::min(begin, end)));
}

Status check_return(const KernelSelector& selector, const FunctionPlace& place) {
    if (selector.kind != ProbeKind::uretprobe) return ok();
    if (is_cold_part(place.function.symbol))
        return Error(
                   "{}: {} is a part of a function, which is jumped to: the stack's top is no return address "
                   "there, and a uretprobe would break the program.",
                   selector.text, place.name)
            .hint("The function itself can have one.");
    if (selector.insists || !returns_otherwise(place.name)) return ok();
    return Error("{}: {} does not return as other functions do, or looks at who calls it. A uretprobe, which "
                 "puts "
                 "another return address on the stack, would end the program, or make it do something else.",
                 selector.text, place.name)
        .hint("`uretprobe!:{}:{}` insists.", selector.file, selector.event);
}

Status check_unwinding(const KernelSelector& selector, const ElfFile& elf) {
    if (selector.kind != ProbeKind::uretprobe || selector.insists) return ok();
    const std::string who = who_walks_the_stack(elf), switches = what_switches_stacks(elf);
    /* The kernel takes returns for those of one stack, by their addresses: of what is out of order it forgets some, which
     * then return to nowhere. */
    if (who.empty() && !switches.empty())
        return Error("{}: {} goes from one stack to another (it has {}). A uretprobe puts another return "
                     "address on the "
                     "stack, and ends a program (SIGILL) that is in the function on two of them.",
                     selector.text, selector.file, switches)
            .hint("`uretprobe!:{}:{}` insists.", selector.file, selector.event);
    if (who.empty()) return ok();
    return Error("{}: {} is {}. A uretprobe puts another return address on the stack, and ends a program "
                 "that throws an exception or panics through the function, or walks its stack.",
                 selector.text, selector.file, who)
        .hint("`uretprobe!:{}:{}` insists.", selector.file, selector.event);
}

/* Where a marker is a function's first instruction: of probes at one place, the kernel takes those alone that name the same
 * semaphore. */
std::string semaphore_at(const ElfFile& elf, const std::vector<Marker>& markers, std::uint64_t address) {
    for (const Marker& marker : markers)
        if (marker.address == address && marker.semaphore != 0)
            if (const auto offset = elf.file_offset_of(marker.semaphore))
                return fmt::format("({:#x})", *offset);
    return {};
}

/* Of each function, in their order, where its probe is to stand. */
std::vector<Result<std::uint64_t>> addresses_to_probe(const KernelSelector& selector, const ElfFile& elf,
                                                      const std::vector<FunctionPlace>& functions) {
    std::vector<Result<std::uint64_t>> addresses;
    std::vector<std::uint64_t> begins;
    for (const FunctionPlace& function : functions) {
        const Status returns = check_return(selector, function);
        addresses.push_back(returns ? wanted_address(selector.file, function)
                                    : Result<std::uint64_t>(returns.error()));
        if (addresses.back() && function.is_begin) begins.push_back(*addresses.back());
    }
    const FirstNops nops(elf, begins);
    for (std::size_t i = 0; i < functions.size(); i++)
        if (addresses[i]) addresses[i] = address_to_probe(elf, nops, *addresses[i], functions[i].is_begin);
    return addresses;
}

/* Of a pattern's many this is not said: it is no more than an impression. */
void note_loop(const KernelSelector& selector, const ElfFile& elf, const FunctionPlace& place,
               std::uint64_t address, std::vector<std::string>& notes) {
    if (is_function_glob(selector.event) || !place.is_begin || place.is_chosen || address != place.address ||
        !seems_to_begin_with_loop(elf, address, place.function.bytes))
        return;
    notes.push_back(
        fmt::format("{}: {} seems to come to its first instruction again (a loop, or a call of itself "
                    "that became a jump): an event comes each time, too.",
                    selector.text, place.name));
}

Result<std::vector<ProbePlace>> places_in_file(const KernelSelector& selector,
                                               std::vector<std::string>& notes) {
    const auto path = absolute_path(selector.file);
    if (!path) return path.error();
    const auto elf = ElfFile::open(selector.file);
    if (!elf) return elf.error();
    if (Status bearable = check_unwinding(selector, *elf); !bearable) return bearable.error();
    const auto functions = choose_functions(*elf, selector.file, selector.event);
    if (!functions) return functions.error();
    const std::vector<Marker> markers = markers_of(*elf);
    std::vector<ProbePlace> places;
    std::vector<std::string> left_out, counted_with;
    Error first_refusal("{} is in no part of {} that is loaded.", selector.event, selector.file);
    for (const FunctionPlace& function : *functions)
        if (Status good = check_begin(selector, function); !good) return good.error();
    const auto addresses = addresses_to_probe(selector, *elf, *functions);
    for (std::size_t i = 0; i < functions->size(); i++) {
        const FunctionPlace& function = (*functions)[i];
        const Result<std::uint64_t>& address = addresses[i];
        if (!address && !is_function_glob(selector.event)) return address.error();
        const auto offset = address ? elf->file_offset_of(*address) : std::nullopt;
        if (!offset) {
            if (left_out.empty() && !address) first_refusal = address.error();
            left_out.push_back(function.name);
            continue;
        }
        note_loop(selector, *elf, function, *address, notes);
        ProbePlace place;
        place.type = is_return(selector.kind) ? "r" : "p";
        place.place = fmt::format("{}:{:#x}", *path, *offset) + semaphore_at(*elf, markers, *address);
        place.raw_name = raw_probe_name(selector.system, function.name);
        place.name = selector.system + "_" + function.name;
        place.file = *path;
        place.arguments = selector.arguments;
        const auto same = std::find_if(places.begin(), places.end(),
                                       [&](const ProbePlace& other) { return other.place == place.place; });
        if (same == places.end())
            places.push_back(std::move(place));
        else
            counted_with.push_back(fmt::format("{} with {}", place.name, same->name));
    }
    if (places.empty()) return first_refusal;
    if (!counted_with.empty())
        notes.push_back(fmt::format("{}: {}: their probes would stand at one place, so one event is of both.",
                                    selector.text, fmt::join(counted_with, ", ")));
    if (!left_out.empty())
        notes.push_back(fmt::format("{}: left out {}. {}", selector.text, fmt::join(left_out, ", "),
                                    first_refusal.message()));
    return places;
}

Result<std::vector<ProbePlace>> places_of_markers(const KernelSelector& selector,
                                                  std::vector<std::string>& notes) {
    const auto path = absolute_path(selector.file);
    if (!path) return path.error();
    const auto elf = ElfFile::open(selector.file);
    if (!elf) return elf.error();
    const auto markers = choose_markers(*elf, selector.file, selector.event);
    if (!markers) return markers.error();
    std::vector<ProbePlace> places;
    std::vector<std::string> left_out;
    std::size_t wrong = 0, unbearable = 0;
    Status bearable = ok();
    for (const Marker& marker : *markers) {
        if (!is_on_nop(*elf, marker)) {
            wrong++;
            continue;
        }
        if (Status good = check_probed_instruction(*elf, marker.address); !good) {
            if (unbearable++ == 0) bearable = good;
            continue;
        }
        auto place = place_of_marker(marker, *elf, *path, left_out);
        if (!place) return place.error();
        if (!selector.arguments.empty()) {
            place->arguments = selector.arguments;
            place->floats.clear();
        }
        places.push_back(std::move(*place));
    }
    const Error moved(
        "{}: {} of {} markers stand on no instruction that does nothing, so the file's notes of them are "
        "wrong: a probe there would break the program.",
        selector.text, wrong, markers->size());
    if (unbearable != 0)
        bearable = Error("{}: {} of {} markers can not be probed. {}", selector.text, unbearable,
                         markers->size(), bearable.error().message());
    if (places.empty()) return bearable ? moved : bearable.error();
    if (wrong != 0) notes.push_back(moved.message());
    if (!bearable) notes.push_back(bearable.error().message());
    constexpr std::size_t told_max = 10;
    if (selector.arguments.empty() && left_out.size() > told_max) {
        const std::size_t more = left_out.size() - told_max;
        left_out.resize(told_max);
        left_out.push_back(fmt::format("{}: so are {} other arguments.", selector.text, more));
    }
    if (selector.arguments.empty()) notes.insert(notes.end(), left_out.begin(), left_out.end());
    return places;
}

} // namespace

Result<std::vector<ProbePlace>> places_of(const KernelSelector& selector, std::vector<std::string>& notes) {
    if (selector.kind == ProbeKind::usdt) return places_of_markers(selector, notes);
    if (selector.kind == ProbeKind::uprobe || selector.kind == ProbeKind::uretprobe)
        return places_in_file(selector, notes);
    /* 4096 calls may be in the function at once, the most that the kernel allows. By itself it keeps places for ten, and
     * more do not return for it. */
    return std::vector{ProbePlace{is_return(selector.kind) ? "r4096" : "p",
                                  selector.event,
                                  raw_probe_name(selector.system, selector.event),
                                  selector.system + "_" + selector.event,
                                  "",
                                  selector.arguments,
                                  "",
                                  {}}};
}

std::string raw_probe_name(const std::string& system, const std::string& name) {
    std::string result = system + "_";
    for (const char each : name)
        result += std::isalnum(static_cast<unsigned char>(each)) != 0 ? each : '_';
    result.resize(std::min(result.size(), raw_name_max));
    return result;
}

std::string another_raw_name(const std::string& raw_name, std::size_t number) {
    return fmt::format("{}_{}", raw_name, number);
}

namespace {

/* "uprobe_f_2" was made of "uprobe_f". */
bool is_made_of(const std::string& raw_name, const std::string& beginning) {
    if (raw_name == beginning) return true;
    if (!raw_name.starts_with(beginning + "_")) return false;
    return std::all_of(raw_name.begin() + static_cast<std::ptrdiff_t>(beginning.size()) + 1, raw_name.end(),
                       [](unsigned char each) { return std::isdigit(each) != 0; });
}

} // namespace

ProbePlace left_probe(const std::string& raw_name, const std::string& place, const std::string& arguments) {
    ProbePlace left;
    left.name = left.raw_name = raw_name;
    left.place = place;
    const std::size_t colon = place.rfind(':');
    const std::string system = raw_name.substr(0, raw_name.find('_'));
    if (is_made_of(raw_name, raw_probe_name(system, place))) left.name = system + "_" + place;
    if (colon == std::string::npos) return left;
    left.file = place.substr(0, colon);
    std::uint64_t offset = 0;
    const std::string number = place.substr(colon + 1);
    if (!number.starts_with("0x") ||
        std::from_chars(number.data() + 2, number.data() + number.size(), offset, 16).ec != std::errc())
        return left;
    const auto elf = ElfFile::open(left.file);
    const auto address = elf ? elf->address_of(offset) : std::nullopt;
    if (!address) return left;
    std::vector<std::string> nobody_asks;
    if (system == "usdt") {
        for (const Marker& marker : markers_of(*elf)) {
            if (marker.address != *address) continue;
            auto found = place_of_marker(marker, *elf, left.file, nobody_asks);
            if (!found || !is_made_of(raw_name, found->raw_name)) continue;
            found->raw_name = raw_name;
            if (found->arguments != arguments) found->floats.clear(); /* they are one's own */
            found->arguments = arguments;
            return std::move(*found);
        }
        return left;
    }
    for (const std::string& name : names_of_address(*elf, *address))
        if (is_made_of(raw_name, raw_probe_name(system, name))) {
            left.name = system + "_" + name;
            break;
        }
    return left;
}

} // namespace plumb
