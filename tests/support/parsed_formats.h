// What becomes of the text of an event's format, and how it is shown in expectations.
#pragma once

#include "consumerd/kernel/event_format.h"
#include "tests/support/kernel_pages.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace plumb::test {

inline constexpr const char* call_number_field = "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n";

inline std::string enter_openat_format() {
    return format_of("sys_enter_openat", "782",
                     std::string(call_number_field) +
                         "\tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;\n"
                         "\tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;\n"
                         "\tfield:int flags;\toffset:32;\tsize:8;\tsigned:0;\n"
                         "\tfield:umode_t mode;\toffset:40;\tsize:8;\tsigned:0;\n",
                     "\"dfd: 0x%08lx, filename: 0x%08lx, flags: 0x%08lx, mode: 0x%08lx\", ((unsigned "
                     "long)(REC->dfd)), ((unsigned long)(REC->filename)), ((unsigned long)(REC->flags)), "
                     "((unsigned long)(REC->mode))");
}

inline KernelEvent parse(const std::string& system, const std::string& format) {
    FormatParser parser;
    Result<KernelEvent> event = parser.parse(system, format);
    EXPECT_TRUE(event) << (event ? "" : event.error().message());
    return event ? *std::move(event) : KernelEvent{};
}

/* "prev_tid: i32"; labels are looked at on their own. */
inline std::vector<std::string> fields_of(const KernelEvent& event) {
    std::vector<std::string> fields;
    for (EventField field : event.description.fields) {
        field.labels.clear();
        field.has_flags = false;
        fields.push_back(field.name + ": " + field.type_name());
    }
    return fields;
}

} // namespace plumb::test
