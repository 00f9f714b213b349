/* What is known behind a wait for programs (quiescence.h): of several states, one sum. */
#include "consumerd/control/quiescence.h"

namespace plumb {

void Report::add(const Report& other) {
    acknowledged.insert(acknowledged.end(), other.acknowledged.begin(), other.acknowledged.end());
    asleep.insert(asleep.end(), other.asleep.begin(), other.asleep.end());
    ended.insert(ended.end(), other.ended.begin(), other.ended.end());
    unreachable.insert(unreachable.end(), other.unreachable.begin(), other.unreachable.end());
    reached_late.insert(reached_late.end(), other.reached_late.begin(), other.reached_late.end());
    disturbed.insert(disturbed.end(), other.disturbed.begin(), other.disturbed.end());
}

} // namespace plumb
