/*
 * Why a recording holds nothing, or nothing of what one of its patterns asks for. A wrong pattern, a program without
 * tracepoints and a probe that could not be loaded look like a program in which nothing happened; so it is said what there
 * was to record, and told apart whether anything could have been.
 */
#ifndef PLUMB_CLI_WHY_EMPTY_H
#define PLUMB_CLI_WHY_EMPTY_H

#include "base/process_names.h"
#include "consumerd/control/session.h"
#include "consumerd/event/elf_events.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace plumb {

/* One that was recorded, and what is known of it. */
struct RecordedProgram {
    std::string name;                     /* as a person calls it */
    std::vector<EventDescription> events; /* of all that it had loaded when it was looked at */
    bool has_plumb = false;
    std::string elf_path{};       /* empty: it is no ELF file, or not known */
    bool can_preload = false;     /* it names a dynamic loader */
    bool declares_events = false; /* as it runs, as Java code does: they are in no file */
};

/* A command, looked for as exec() does. What is a script, or can not be read, has a name alone. */
RecordedProgram program_of_command(const std::string& command);

struct RecordingFacts {
    std::vector<std::string> patterns; /* of -e */
    LogLevels levels = {};
    bool has_probe = false;
    bool has_lttng_probe = false;
    bool has_kernel_events = false; /* were recorded, too */
    bool is_empty = false;          /* nothing was recorded, and nothing lost */
    bool is_open = false;           /* anybody might have come: no command, and nobody was named */
    bool is_command = false;
    bool had_children = false; /* the command, or it is not known */
    std::uint32_t begun = 0;   /* programs with tracepoints */
    bool is_attached = false;  /* some process with tracepoints ran before */
    std::vector<std::string>
        left_behind; /* name (number) of what the command started and runs on, without tracepoints so far */
    std::size_t asleep = 0;   /* processes that slept when it began or ended, by Report::asleep */
    std::size_t recorded = 0; /* processes that could have written */
    std::set<std::string> on; /* kinds of events that were on anywhere */
    bool has_filters = false;
    bool is_any_left_out = false; /* of events for which a filter can never be true; they are not in `on` */
    bool is_any_unknown = false;  /* of tracepoints that no probe knows how to record; nor are these */
    std::vector<RecordedProgram> programs; /* those that were named: the command, or attached to */
    std::vector<RecordedProgram> others;   /* that were recorded, too */
    std::vector<std::string> executables;  /* patterns of --exe */
    std::vector<std::string> running;      /* names of the executables of all that have tracepoints now */
};

struct WhyEmpty {
    std::vector<std::string> lines;
    bool could_never_match = false; /* so it is a mistake, and no quiet program */
};
WhyEmpty why_empty(const RecordingFacts& facts);

/* "No event of shop matches -e 'nosuch:*'; it has web:request, web:response."; nothing where one does. */
std::string why_no_event(const RecordedProgram& program, const std::vector<std::string>& patterns,
                         const LogLevels& levels);

} // namespace plumb

#endif
