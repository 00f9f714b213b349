#include "consumerd/daemon/event_count.h"

#include "consumerd/control/ring_sizes.h"

namespace plumb {

Result<EventCount> EventCount::make(const std::string& session_name, std::uint64_t cookie,
                                    const QuiescenceOptions& quiescence, const Log& log) {
    auto config = counting_channel(CountsConfig());
    if (!config) return config.error();
    config->session_name = session_name;
    config->is_kept = true;
    if (Status possible = check_memory_for(*config); !possible) return possible.error();
    auto session = Session::create(*config, quiescence, {}, cookie);
    if (!session) return session.error();
    return of(std::move(*session), log);
}

Result<EventCount> EventCount::of(Session session, const Log& log) {
    ReaderOptions reading;
    reading.shared = session.channel().bytes().data();
    reading.made_as = session.channel().made_as();
    reading.log = log;
    auto reader = CountReader::open(session.channel().bytes(), CountsConfig().encode(), std::move(reading));
    if (!reader) return reader.error().as(EBADMSG);
    return EventCount(std::move(session), std::move(*reader));
}

std::uint64_t EventCount::count() {
    std::uint64_t sum = 0;
    for (const CountsOfEvent& event : reader_.read())
        sum += event.count;
    return sum;
}

Status EventCount::end() {
    const auto ended = session_.end();
    const Status removed = session_.remove_channel();
    return ended ? removed : Status(ended.error());
}

} // namespace plumb
