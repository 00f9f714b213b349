/*
 * The kernel's events by plumb.ko, into a channel as programs have: which there are, and what they are called in a trace;
 * and the descriptor by which they are switched on (<plumb/abi/kernel_events.h>).
 *
 *   auto events = ModuleEvents::open();
 *   events->choose(selectors);            // of all that the module has
 *   auto channel = Channel::create(directory, events->channel_config(...));
 *   events->attach(*channel);             // described in its table; nothing is recorded yet
 *   events->follow({pid});                // it and its children; without: the whole machine
 *   events->start();
 *   ... drain_module_channel() reads ...
 *   events->stop();                       // behind it there is no further record
 */
#ifndef PLUMB_CONSUMERD_KERNEL_MODULE_EVENTS_H
#define PLUMB_CONSUMERD_KERNEL_MODULE_EVENTS_H

#include "base/condition_parser.h"
#include "base/file.h"
#include "base/result.h"
#include "consumerd/control/channel.h"
#include "consumerd/event/elf_events.h"
#include "consumerd/kernel/module_calls.h"
#include "consumerd/kernel/own_calls.h"
#include "consumerd/kernel/tracefs.h"

#include <plumb/abi/kernel_filter.h>
#include <plumb/abi/kernel_probe.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace plumb {

/* One that is made for this recording. */
struct ModuleEventProbe {
    KernelSelector selector;
    std::vector<plumb_kernel_probe> requests; /* one, but for late texts of system calls */
};

struct ModuleEvent {
    std::uint32_t index; /* of the module; of a probe, none */
    std::string system;  /* "sched" */
    std::string name;    /* "sched_switch", as tracefs calls it */
    EventDescription description;
    bool tells_of_threads() const { return name == "task_newtask" || name == "task_rename"; }
    bool is_of_new_thread() const { return name == "task_newtask"; }
    bool is_system_call() const {
        return system == "syscalls" || system == "raw_syscalls" || name == "syscall_late_text";
    }
    bool is_ours = false; /* not asked for: it tells us the names of threads, and is not in the trace */
    std::shared_ptr<const ModuleEventProbe> probe = {}; /* null: it is one of the module's own */
    std::vector<std::string> kernel_field_names = {};   /* where they are others than the description's */
    std::shared_ptr<const plumb_kernel_filter> filter = {};
};

class ModuleEvents {
public:
    /* Says what is missing where there is no module, or it may not be used. */
    static Result<ModuleEvents> open();

    const std::vector<ModuleEvent>& all() const { return all_; }
    const std::vector<ModuleEvent>& chosen() const { return chosen_; }
    /* Names of system calls of which an exit may be missing, and that of a later call come next (ctf_layout.h). */
    std::vector<std::string> split_calls() const;
    /* What a person should know of what was chosen; start() adds to it. */
    const std::vector<std::string>& notes() const { return notes_; }
    /* And those that tell the names of threads, which are marked as ours. `file_names`: strings of system calls, not their addresses. An error names the first selector that asks for what
     * the module does not have. */
    Status choose(const std::vector<KernelSelector>& selectors, bool file_names);

    /* Each of the chosen gets the id of its place there, from 1 on. */
    Status attach(Channel& channel);
    /* Only these processes, and all that they start from now on; behind attach(). One that has ended is none. */
    Status follow(const std::vector<std::uint32_t>& process_ids);
    /* Without those that have gone since they were chosen, with the module that they are of. */
    Status start();
    Status stop();

    /* Of the command, before it is one; behind attach(). */
    OwnCalls& own_calls() { return *own_calls_; }
    const OwnCalls& own_calls() const { return *own_calls_; }

    /* Hits of its probes that the kernel did not tell of, inside of others, or since too many calls had not returned. */
    std::uint64_t missed_probe_hits() const;

    /* Readable when a sub-buffer was entered; read() takes that back. */
    int descriptor() const { return descriptor_.get(); }

private:
    explicit ModuleEvents(FileDescriptor descriptor) : descriptor_(std::move(descriptor)) {}
    Status know_all();
    Status only_ones_are_meant() const;
    void note_left_to_tracefs(const std::vector<KernelSelector>& selectors);
    struct Asked { /* of one event, by the patterns that it matches */
        bool for_all = false;
        std::vector<ConditionTree> filters;
    };
    struct Unfiltered {
        std::string selector;
        std::vector<std::string> events; /* that do not have the fields of its filter */
    };
    using Matching = std::vector<const ModuleEvent*>;

    Status choose_probe(const KernelSelector& selector);
    Result<Matching> matching_calls(const KernelSelector& selector, bool file_names);
    Status ask_for(const KernelSelector& selector, const Matching& matching);
    Status ask_for_some(const KernelSelector& selector, const Matching& matching);
    Status no_event_matches(const KernelSelector& selector) const;
    Status choose_event(ModuleEvent event);
    void note_unfiltered();
    Status add_calls();
    Status keep_filter(const ModuleEvent& event, std::uint32_t id);
    Status switch_on(const ModuleEvent& event, std::uint32_t id);

    FileDescriptor descriptor_;
    std::vector<ModuleEvent> all_, chosen_;
    std::vector<ModuleEvent> probes_; /* as they were asked for */
    ModuleCalls calls_;               /* if any was asked for */
    std::vector<ModuleEvent> call_events_;
    std::map<std::string, Asked> asked_; /* by its name, or as the probe was asked for */
    std::vector<Unfiltered> unfiltered_;
    std::vector<std::string> notes_;
    std::unique_ptr<OwnCalls> own_calls_;
};

} // namespace plumb

#endif
