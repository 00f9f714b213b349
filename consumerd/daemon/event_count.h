/*
 * How often an event has happened, for a trigger: a session that counts, beside the one that the trigger is of. Programs ask its
 * filter and count themselves, so that nothing is unseen for want of room, whatever the session that records does with the event.
 * It is kept as that is: the count is there for the next worker.
 */
#ifndef PLUMB_CONSUMERD_DAEMON_EVENT_COUNT_H
#define PLUMB_CONSUMERD_DAEMON_EVENT_COUNT_H

#include "base/result.h"
#include "consumerd/channel/count_reader.h"
#include "consumerd/control/session.h"

#include <cstdint>
#include <functional>
#include <string>

namespace plumb {

class EventCount {
public:
    using Log = std::function<void(const std::string&)>;
    static Result<EventCount> make(const std::string& session_name, std::uint64_t cookie,
                                   const QuiescenceOptions& quiescence, const Log& log);
    /* Of a session that was made so. */
    static Result<EventCount> of(Session session, const Log& log);

    /* All of them, since it was made. */
    std::uint64_t count();
    std::uint64_t not_counted() const { return reader_.not_counted(); }
    /* Kinds of events that found no room, in some process. */
    std::uint64_t not_switched_on() const {
        return reader_.channel().refused(PLUMB_REFUSED_EVENT_SLOTS) +
               reader_.channel().refused(PLUMB_REFUSED_HEAP);
    }
    Session& session() { return session_; }
    /* Nothing is left of it. */
    Status end();

private:
    EventCount(Session session, CountReader reader)
        : session_(std::move(session)), reader_(std::move(reader)) {}
    Session session_;
    CountReader reader_;
};

} // namespace plumb

#endif
