/*
 * Whether a condition makes sense of what fields are known to be: texts are compared with texts, only integers have bits, and
 * the whole is something that can be true. What does not is told with its column.
 */
#ifndef PLUMB_BASE_CONDITION_TYPES_H
#define PLUMB_BASE_CONDITION_TYPES_H

#include "base/condition_parser.h"
#include "base/result.h"

#include <cstddef>
#include <functional>
#include <string>

namespace plumb {

/* Which of these a node can be, in some event. */
struct ConditionTypes {
    bool number = false, integer = false, text = false;
    void add(const ConditionTypes& other) {
        number |= other.number;
        integer |= other.integer;
        text |= other.text;
    }
};

bool is_comparison(ConditionOperator op);
bool is_of_bits(ConditionOperator op);

/* `types_of_field`: of the node with this index, in all events together. `why_no_value`: of a field that is nothing in any. */
Status check_condition(const ConditionTree& tree,
                       const std::function<ConditionTypes(std::size_t)>& types_of_field,
                       const std::function<std::string(const FieldPath&)>& why_no_value);

/* "no event of the trace has a field idd, but some have id": of names that were meant, perhaps, the nearest. */
class NearestName {
public:
    explicit NearestName(const std::string& wanted);
    /* `shown`: how it is written in a condition. */
    void add(const std::string& name, const std::string& shown);
    bool is_equal() const { return least_ == 0; }
    const std::string& shown() const { return shown_; } /* empty: none is near */

private:
    std::string wanted_, shown_;
    std::size_t least_;
};

} // namespace plumb

#endif
