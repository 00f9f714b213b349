#include "consumerd/probe/function_choice.h"

#include "base/demangle.h"
#include "base/glob.h"
#include "consumerd/probe/similar_names.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

namespace plumb {
namespace {

std::optional<std::uint64_t> whole_number(std::string_view text) {
    const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
    if (is_hex) text.remove_prefix(2);
    std::uint64_t number = 0;
    const auto [rest, wrong] =
        std::from_chars(text.data(), text.data() + text.size(), number, is_hex ? 16 : 10);
    if (text.empty() || wrong != std::errc() || rest != text.data() + text.size()) return {};
    return number;
}

/* What was written, taken apart. */
struct Wanted {
    std::string name;
    std::string version; /* a glob; empty: the default one */
    std::uint64_t offset = 0;
    std::string offset_text; /* "+0x10" */
};

Wanted take_apart(const std::string& text) {
    Wanted wanted{text, "", 0, ""};
    if (const std::size_t plus = text.rfind('+'); plus != std::string::npos && plus != 0)
        if (const auto offset = whole_number(std::string_view(text).substr(plus + 1))) {
            wanted.offset = *offset;
            wanted.offset_text = *offset != 0 ? fmt::format("+{:#x}", *offset) : "";
            wanted.name.resize(plus);
        }
    if (const std::size_t at = wanted.name.find('@'); at != std::string::npos && at != 0) {
        wanted.version = wanted.name.substr(wanted.name.compare(at, 2, "@@") == 0 ? at + 2 : at + 1);
        wanted.name.resize(at);
    }
    return wanted;
}

bool is_glob_text(const std::string& text) {
    return text.find_first_of("*?[") != std::string::npos;
}

using Matches = std::vector<const ProbedFunction*>;

Matches named_exactly(const std::vector<ProbedFunction>& functions, const Wanted& wanted) {
    Matches found;
    for (const ProbedFunction& function : functions)
        if (function.symbol == wanted.name) found.push_back(&function);
    if (!found.empty()) return found;
    for (const ProbedFunction& function : functions) {
        if (is_cold_part(function.symbol)) continue;
        const std::string name = demangled(function.symbol);
        if (name != function.symbol && (name == wanted.name || without_parameters(name) == wanted.name))
            found.push_back(&function);
    }
    return found;
}

Matches named_by_glob(const std::vector<ProbedFunction>& functions, const Wanted& wanted) {
    Matches found;
    const auto matches = [&](const std::string& name) {
        return glob_matches(wanted.name.c_str(), name.c_str());
    };
    for (const ProbedFunction& function : functions) {
        if (is_cold_part(function.symbol)) continue;
        const std::string name = demangled(function.symbol);
        if (matches(function.symbol) || matches(name) || matches(without_parameters(name)))
            found.push_back(&function);
    }
    return found;
}

/* Of the versions of each symbol, those that were asked for; where there is no default one, all that there are. */
Matches of_wanted_version(const Matches& all, const std::string& version) {
    std::set<std::string_view> with_default;
    for (const ProbedFunction* function : all)
        if (function->is_default) with_default.insert(function->symbol);
    Matches found;
    for (const ProbedFunction* function : all)
        if (version.empty() ? function->is_default || !with_default.contains(function->symbol)
                            : glob_matches(version.c_str(), function->version.c_str()))
            found.push_back(function);
    return found;
}

std::string shown_name(const ProbedFunction& function) {
    std::string name = demangled(function.symbol);
    if (!function.is_default && !function.version.empty()) name += '@' + function.version;
    return name;
}

/* Of several names of one function, the one that people use. */
bool is_better_name(const ProbedFunction& a, const ProbedFunction& b) {
    const auto rank = [](const ProbedFunction& function) {
        const std::size_t underscores = std::min(function.symbol.find_first_not_of('_'), std::size_t{3});
        const bool is_mangled = function.symbol.starts_with("_Z");
        return std::tuple(!function.is_default, !function.is_exported, is_mangled ? 0 : underscores,
                          function.symbol);
    };
    return rank(a) < rank(b);
}

Error not_found(const std::vector<ProbedFunction>& functions, const std::string& path, const Wanted& wanted,
                const Matches& other_versions) {
    if (!other_versions.empty()) {
        std::set<std::string> versions;
        for (const ProbedFunction* function : other_versions)
            versions.insert(function->version.empty() ? "none" : function->version);
        return Error("{} has no function {} of the version {}.", path, wanted.name, wanted.version)
            .hint("Its versions are: {}.", fmt::join(versions, ", "));
    }
    const Error error("{} has no function {}.", path, wanted.name);
    if (functions.empty())
        return error.hint(
            "It names no function at all, since it is stripped; an address (0x1234) can be given, or a "
            "file that is not stripped.");
    std::vector<std::string> names;
    for (const ProbedFunction& function : functions)
        names.push_back(without_parameters(demangled(function.symbol)));
    const std::vector<std::string> similar = similar_names(wanted.name, std::move(names));
    if (!similar.empty()) return error.hint("It has {}.", fmt::join(similar, ", "));
    return error.hint(
        "`nm -C {0}` and `nm -DC {0}` show those it has; a stripped file has only the second kind.", path);
}

Result<std::vector<FunctionPlace>> place_of_address(const ElfFile& elf, const std::string& path,
                                                    std::uint64_t address) {
    const auto offset = elf.file_offset_of(address);
    if (!offset) return Error("{:#x} is no address of what is loaded of {}.", address, path);
    FunctionPlace place;
    place.address = address;
    const std::vector<ProbedFunction> functions = functions_of(elf);
    for (const ProbedFunction& function : functions)
        if (function.address == address) {
            if (!place.is_begin || is_better_name(function, place.function)) place.function = function;
            place.is_begin = true;
        }
    place.name = place.is_begin ? shown_name(place.function) : fmt::format("{:#x}", address);
    return std::vector{std::move(place)};
}

} // namespace

bool is_cold_part(const std::string& symbol) {
    return symbol.find(".cold") != std::string::npos;
}

bool is_function_glob(const std::string& text) {
    return is_glob_text(take_apart(text).name);
}

Result<std::vector<FunctionPlace>> choose_functions(const ElfFile& elf, const std::string& path,
                                                    const std::string& text) {
    if (text.starts_with("0x"))
        if (const auto address = whole_number(text)) return place_of_address(elf, path, *address);
    const Wanted wanted = take_apart(text);
    const std::vector<ProbedFunction> functions = functions_of(elf);
    Matches all = named_exactly(functions, wanted);
    if (all.empty() && is_glob_text(wanted.name)) all = named_by_glob(functions, wanted);
    const Matches matches = of_wanted_version(all, wanted.version);
    if (matches.empty()) return not_found(functions, path, wanted, all);
    std::map<std::uint64_t, const ProbedFunction*> best;
    for (const ProbedFunction* function : matches) {
        const auto [known, is_new] = best.emplace(function->address, function);
        if (!is_new && is_better_name(*function, *known->second)) known->second = function;
    }
    if (best.size() > places_of_a_pattern_max)
        return Error("{} matches {} functions of {}; more than {} are not probed at once.", text, best.size(),
                     path, places_of_a_pattern_max)
            .hint("Write a pattern that matches fewer.");
    std::vector<FunctionPlace> places;
    for (const auto& [address, function] : best) {
        FunctionPlace place;
        place.name = shown_name(*function) + wanted.offset_text;
        place.offset = wanted.offset;
        place.is_chosen = function->is_chosen;
        place.address = function->is_chosen ? address : address + wanted.offset;
        place.is_begin = wanted.offset == 0;
        place.function = *function;
        if (!elf.file_offset_of(place.address)) {
            if (best.size() > 1) continue;
            return Error("{} of {} is in no part of the file that is loaded.", place.name, path);
        }
        places.push_back(std::move(place));
    }
    std::stable_sort(places.begin(), places.end(),
                     [](const FunctionPlace& a, const FunctionPlace& b) { return a.name < b.name; });
    return places;
}

std::vector<std::string> names_of_address(const ElfFile& elf, std::uint64_t address) {
    std::vector<ProbedFunction> functions = functions_of(elf);
    /* The functions that begin closest below it; who has an offset within them. */
    std::uint64_t begin = 0;
    for (const ProbedFunction& function : functions)
        if (function.address <= address) begin = std::max(begin, function.address);
    std::erase_if(functions, [&](const ProbedFunction& function) { return function.address != begin; });
    std::stable_sort(functions.begin(), functions.end(), is_better_name);
    std::vector<std::string> names;
    const std::string offset = address == begin ? "" : fmt::format("+{:#x}", address - begin);
    for (const ProbedFunction& function : functions)
        names.push_back(shown_name(function) + offset);
    /* A probe that had to stand behind the first instruction. */
    for (const ProbedFunction& function : functions)
        if (!offset.empty()) names.push_back(shown_name(function));
    names.push_back(fmt::format("{:#x}", address));
    return names;
}

} // namespace plumb
