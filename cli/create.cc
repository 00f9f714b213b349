/*
 * plumb create SESSION: has plumb-consumerd make a session, which records from `plumb start` on, whoever comes and goes.
 */
#include "cli/command.h"
#include "cli/option_checks.h"
#include "cli/output.h"
#include "cli/record_options.h"
#include "cli/session_commands.h"
#include "cli/shared_options.h"
#include "consumerd/daemon/client.h"
#include "consumerd/daemon/session_description.h"
#include "consumerd/places/other_users.h"

#include <memory>
#include <utility>

namespace plumb {
namespace {

struct CreateWords {
    SessionWords session;
    RecordOptions options;
};

Result<SessionDescription> description_of(const CreateWords& words) {
    RecordOptions options = words.options;
    /* What a session writes is in chunks, whether it says when one ends or not. */
    options.rotate = !options.snapshot && options.mode != "overwrite";
    if (Status sensible = check_options(options); !sensible) return sensible.error();
    const auto chunks = chunk_options(options);
    if (!chunks) return chunks.error();
    const auto config = channel_config(options);
    if (!config) return config.error();
    const auto clock = parse_clock(options.clock);
    if (!clock) return clock.error();
    SessionDescription session;
    session.name = words.session.session;
    auto output = output_from_root(words.options.directory, words.session.session);
    if (!output) return output.error();
    session.output = std::move(*output);
    session.mode = config->mode;
    /* What is not given is left to the daemon, which knows what room there is. */
    if (!options.subbuf_size.empty()) session.subbuf_bytes = config->subbuf_bytes;
    if (options.subbuf_count) session.subbuf_count = config->subbuf_count;
    if (config->block_timeout_ns != 0) session.block_timeout_ns = config->block_timeout_ns;
    session.context = fmt::format("{}", fmt::join(options.context, ","));
    session.rings_on_demand = options.rings_on_demand;
    session.is_global = config->is_global;
    session.clock = *clock;
    session.is_plain = options.plain;
    session.filtered_too = options.seccomp;
    for (const std::string& text : options.users) {
        const auto user_id = parse_user(text);
        if (!user_id) return user_id.error().with("--user");
        session.users.push_back(*user_id);
    }
    session.all_users = options.all_users;
    if (Status possible = check_users(session); !possible) return possible.error();
    if (options.kernel_by == "module")
        return Error("--kernel-by module is for `plumb record`.")
            .hint("Leave it out: a session has the kernel's events from the kernel's own tracing.");
    const auto buffer_bytes = kernel_buffer_bytes(options);
    if (!buffer_bytes) return buffer_bytes.error();
    session.kernel.events = options.kernel_events;
    session.kernel.buffer_bytes = *buffer_bytes;
    session.kernel.file_names = !options.no_file_names;
    session.kernel.open_files = options.statedump_files;
    if (Status possible = check_kernel(session); !possible) return possible.error();
    session.rotate_period_ns = chunks->period_ns;
    session.rotate_bytes = chunks->rotate_bytes;
    session.keep_chunks = chunks->keep_count;
    session.keep_bytes = chunks->keep_bytes;
    return session;
}

int run_create(const CreateWords& words) {
    const auto session = description_of(words);
    if (!session) {
        complain(session.error());
        return exit_status_of_wrong_words;
    }
    return ask_for("create", {{"description", description_as_json(*session, false)}}, words.session.json,
                   [](const Json& answer) { say_directory(answer.value("description", Json::object())); });
}

void add_create(CLI::App& app) {
    auto words = std::make_shared<CreateWords>();
    CLI::App* const command =
        app.add_subcommand("create", "Make a session that plumb-consumerd keeps, whoever comes and goes");
    add_session(*command, words->session);
    command
        ->add_option("-o,--output", words->options.directory,
                     "Directory of its trace, which must be new; default: plumb-trace-SESSION-<date>")
        ->check(not_empty())
        ->type_name("DIR");
    add_context_option(*command, words->options);
    add_user_options(*command, words->options);
    add_kernel_options(*command, words->options);
    add_ring_options(*command, words->options);
    add_chunk_options(*command, words->options);
    command->add_flag("--plain", words->options.plain, "Write records as they lie in the rings");
    command->add_flag("--seccomp", words->options.seccomp,
                      "Attach to programs with seccomp filters, too, though a filter may end its program for "
                      "a call that tracing makes");
    command->footer("plumb create web                       a session; prints where its trace will be\n"
                    "plumb enable web 'shop:*'              what it records\n"
                    "plumb start web                        from now on, until `plumb stop web`\n"
                    "plumb destroy web                      the trace stays");
    command->callback([words] { finish(run_create(*words)); });
}

const Command create_command(add_create, 11);

} // namespace
} // namespace plumb
