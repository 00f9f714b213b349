/* Descriptions of events for tests, made of fields of each shape. */
#ifndef PLUMB_TESTS_SUPPORT_DESCRIBED_EVENT_H
#define PLUMB_TESTS_SUPPORT_DESCRIBED_EVENT_H

#include <plumb/detail/event.h>
#include <plumb/runtime.h>

#include <vector>

namespace plumb::test {

/* `fields` must live as long. */
inline plumb_event_info info_of(const std::vector<plumb_event_field>& fields, const char* name = "event") {
    plumb_event_info info = {};
    info.provider = "unit";
    info.name = name;
    info.source_file =
        "tests/unit/runtime_test.cc"; // not __FILE__, whose length is that of somebody's folder
    info.fields = fields.data();
    info.field_count = static_cast<uint16_t>(fields.size());
    info.version = PLUMB_RUNTIME_VERSION;
    return info;
}

inline constexpr plumb_event_field number{"n", nullptr, 0, 0, PLUMB_FIELD_INTEGER, 8, 0, 0};
inline constexpr plumb_event_field text{"t", nullptr, 0, 0, PLUMB_FIELD_TEXT, 1, 0, 0};
inline constexpr plumb_event_field string{"s", nullptr, 0, 0, PLUMB_FIELD_STRING, 1, 0, 0};
inline constexpr plumb_event_field sequence{"q", nullptr, 0, 0, PLUMB_FIELD_SEQUENCE, 4, 0, 0};
inline constexpr plumb_event_field array{"a", nullptr, 0, 3, PLUMB_FIELD_ARRAY, 2, 0, 0};

} // namespace plumb::test

#endif
