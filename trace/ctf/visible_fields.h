/*
 * Which integer a length or a tag of the metadata names: `len`, `header.len`, `stream.event.context.len`. Metadata is hostile: thousands of
 * structs may have the same names, so the looks at them are bounded. All names are views of the metadata's.
 */
#ifndef PLUMB_TRACE_CTF_VISIBLE_FIELDS_H
#define PLUMB_TRACE_CTF_VISIBLE_FIELDS_H

#include "base/result.h"
#include "trace/ctf/decode_plan.h"
#include "trace/ctf/tsdl.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace plumb {

class VisibleFields {
public:
    static constexpr uint32_t nowhere = ~uint32_t{0};
    /* An integer that later steps may refer to. */
    struct Visible {
        uint32_t place;
        std::string_view name;
        Plan* plan;
        uint32_t step;
        const tsdl::Type* type;
    };

    /* A struct or what is like one; `parent`: `nowhere` for a scope, by its name. */
    uint32_t make_place(uint32_t parent, std::string_view name);
    void show(const Visible& visible);
    std::size_t size() const { return visible_.size(); }
    /* Of one that is shown: from 0 on, in order. */
    std::size_t number_of(const Visible& visible) const {
        return static_cast<std::size_t>(&visible - visible_.data());
    }
    /* All but the first so many. */
    void hide_from(std::size_t count);
    /* As seen from a place. It stays until another one is shown. */
    Result<const Visible*> resolve(uint32_t parent, std::string_view reference);
    /* Counts looks that somebody else does; an error when it is enough. */
    Status look(std::size_t times);

private:
    /* By its way up to its scope, which has no parent and the scope's name. A path is never written out: there may be many, of long
     * names. */
    struct Place {
        uint32_t parent;
        std::string_view name;
    };

    bool may_look(std::size_t times);
    bool is_same(uint32_t a, uint32_t b);
    bool is_at(const Visible& visible, uint32_t place, std::string_view reference);
    bool is_in(const Visible& visible, std::string_view scope, std::string_view reference);
    std::optional<uint32_t> strip(const Visible& visible, std::string_view& reference);
    const Visible* look_up(uint32_t parent, std::string_view reference);

    std::vector<Place> places_;
    std::vector<Visible> visible_;
    std::unordered_map<std::string_view, std::vector<uint32_t>> by_name_; /* places in it, in order */
    std::size_t looks_ = 0;
};

} // namespace plumb

#endif
