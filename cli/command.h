/*
 * The table of subcommands. A file cli/<name>.cc holds one subcommand and enters it with
 *
 *   void add_list(CLI::App& app) {
 *       auto options = std::make_shared<Options>();
 *       CLI::App* command = app.add_subcommand("list", "Show tracepoints");
 *       command->add_option("FILE", options->file, "...");
 *       command->callback([options] { finish(run(*options)); });
 *   }
 *   const Command command(add_list, 20);
 *
 * so a subcommand comes and goes with its file, and nothing else has to name it.
 */
#ifndef PLUMB_CLI_COMMAND_H
#define PLUMB_CLI_COMMAND_H

#include "base/result.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace plumb {

class Command {
public:
    /* `order` is the place in --help: record 10, list 20, view 30, doctor 90. Entered before main() runs. */
    Command(void (*add)(CLI::App&), int order);
    Command(const Command&) = delete;
    Command& operator=(const Command&) = delete;

    /* Adds every subcommand to the command line, in order. */
    static void add_all(CLI::App& app);

private:
    void (*add_)(CLI::App&);
    int order_;
    Command* next_;
};

/* The words behind the first "--" of `plumb record`, `plumb stat` and `plumb boot`: they are a command, or options for later, and none of
 * them is ours to parse. */
struct WordsBehindDashes {
    bool present = false;
    std::vector<std::string> words;
};
const WordsBehindDashes& words_behind_dashes();

/* Of words that mean nothing. */
inline constexpr int exit_status_of_wrong_words = 2;

/* What the program returns when the subcommand's callback has returned. */
void finish(int exit_status);
int exit_status();
/* The signal by which the program ends then, since what it ran has ended so; 0: none. */
void finish_by_signal(int number);
int final_signal();

/* Prints "plumb: <message>" to standard error. Returns 1, to be given to finish(). */
int complain(const Error& error);

} // namespace plumb

#endif
