#include "trace/ctf/visible_fields.h"

#include <array>

namespace plumb {
namespace {

constexpr std::size_t max_looks = std::size_t{1} << 23;
constexpr std::array<std::string_view, 6> scopes{"event.fields",          "event.context",
                                                 "stream.event.context",  "stream.event.header",
                                                 "stream.packet.context", "trace.packet.header"};

Error too_many_looks() {
    return Error("The metadata has too many lengths, tags and labels of the same names.");
}

} // namespace

void VisibleFields::show(const Visible& visible) {
    by_name_[visible.name].push_back(static_cast<uint32_t>(visible_.size()));
    visible_.push_back(visible);
}

void VisibleFields::hide_from(std::size_t count) {
    for (; visible_.size() > count; visible_.pop_back()) {
        const auto named = by_name_.find(visible_.back().name);
        named->second.pop_back();
        if (named->second.empty()) by_name_.erase(named);
    }
}

bool VisibleFields::may_look(std::size_t times) {
    looks_ += times;
    return looks_ <= max_looks;
}

Status VisibleFields::look(std::size_t times) {
    return may_look(times) ? ok() : too_many_looks();
}

uint32_t VisibleFields::make_place(uint32_t parent, std::string_view name) {
    places_.push_back({parent, name});
    return static_cast<uint32_t>(places_.size() - 1);
}

/* By name: what is described twice is one place. */
bool VisibleFields::is_same(uint32_t a, uint32_t b) {
    while (a != b) {
        if (!may_look(1) || a == nowhere || b == nowhere || places_[a].name != places_[b].name) return false;
        a = places_[a].parent;
        b = places_[b].parent;
    }
    return true;
}

/* Where a reference to the integer would have to begin: the names "a.b.c" are taken off from its end. */
std::optional<uint32_t> VisibleFields::strip(const Visible& visible, std::string_view& reference) {
    std::string_view name = visible.name;
    for (uint32_t place = visible.place;; place = places_[place].parent) {
        if (!may_look(1) || !reference.ends_with(name)) return {};
        reference.remove_suffix(name.size());
        if (reference.empty()) return place;
        if (reference.back() != '.' || places_[place].parent == nowhere) return {};
        reference.remove_suffix(1);
        name = places_[place].name;
    }
}

bool VisibleFields::is_at(const Visible& visible, uint32_t place, std::string_view reference) {
    const auto begin = strip(visible, reference);
    return begin && is_same(*begin, place);
}

bool VisibleFields::is_in(const Visible& visible, std::string_view scope, std::string_view reference) {
    const auto begin = strip(visible, reference);
    return begin && places_[*begin].parent == nowhere && places_[*begin].name == scope;
}

/* The nearest struct that has the name wins, then the scopes from the innermost to the outermost. */
const VisibleFields::Visible* VisibleFields::look_up(uint32_t parent, std::string_view reference) {
    const auto named = by_name_.find(reference.substr(reference.rfind('.') + 1));
    if (named == by_name_.end()) return nullptr;
    const std::vector<uint32_t>& candidates = named->second;
    const auto find = [&](auto is_it) -> const Visible* {
        for (auto entry = candidates.rbegin(); entry != candidates.rend(); ++entry)
            if (is_it(visible_[*entry])) return &visible_[*entry];
        return nullptr;
    };
    for (const std::string_view scope : scopes)
        if (reference.size() > scope.size() && reference.starts_with(scope) && reference[scope.size()] == '.')
            if (const Visible* absolute = find([&](const Visible& visible) {
                    return is_in(visible, scope, reference.substr(scope.size() + 1));
                }))
                return absolute;
    for (uint32_t place = parent; place != nowhere; place = places_[place].parent)
        if (const Visible* found =
                find([&](const Visible& visible) { return is_at(visible, place, reference); }))
            return found;
    for (const std::string_view scope : scopes)
        if (const Visible* found =
                find([&](const Visible& visible) { return is_in(visible, scope, reference); }))
            return found;
    return nullptr;
}

Result<const VisibleFields::Visible*> VisibleFields::resolve(uint32_t parent, std::string_view reference) {
    const Visible* const found = look_up(parent, reference);
    if (looks_ > max_looks) return too_many_looks();
    if (found == nullptr) return Error("The metadata has no integer `{:.60}` before it.", reference);
    return found;
}

} // namespace plumb
