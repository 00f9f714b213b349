#include "cli/jvm.h"

#include "base/file.h"
#include "base/memory_room.h"
#include "base/processes.h"
#include "base/thread_room.h"
#include "cli/jvm_flags.h"
#include "cli/preload.h"
#include "consumerd/control/seccomp.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace plumb {
namespace {

constexpr unsigned jvm_attach_look_us = 5'000;
constexpr unsigned jvm_attach_looks = 2'000; /* ten seconds, as jcmd waits */
constexpr long jvm_answer_seconds = 20;
constexpr std::size_t jvm_argument_bytes_max = 1024;
/* The listener, the agent's own, and those that the program begins meanwhile; with their stacks. */
constexpr std::uint64_t threads_of_attaching = 8, bytes_of_attaching = 8 << 20;

/* How a word stands in JAVA_TOOL_OPTIONS, which knows two kinds of quotes and no other way. */
Result<std::string> quoted_for_java(const std::string& word) {
    if (word.find_first_of(" \t\n\v\f\r\"'") == std::string::npos) return word;
    const char quote = word.find('"') == std::string::npos ? '"' : '\'';
    if (word.find(quote) != std::string::npos)
        return Error("{} can not stand in JAVA_TOOL_OPTIONS: it has both kinds of quotes in it.", word);
    return quote + word + quote;
}

/* Files are made, and sockets connected, as the user whom the JVM runs as: it believes nobody else but root of its own
 * user namespace. Of this thread alone, which is why the C library is not asked. */
class AsUserOf {
public:
    explicit AsUserOf(const struct stat& process) {
        if (::geteuid() != 0 || process.st_uid == 0) return;
        changed_ = ::syscall(SYS_setresgid, -1, process.st_gid, -1) == 0 &&
                   ::syscall(SYS_setresuid, -1, process.st_uid, -1) == 0;
    }
    ~AsUserOf() {
        if (!changed_) return;
        ::syscall(SYS_setresuid, -1, 0, -1);
        ::syscall(SYS_setresgid, -1, 0, -1);
    }
    AsUserOf(const AsUserOf&) = delete;
    AsUserOf& operator=(const AsUserOf&) = delete;

private:
    bool changed_ = false;
};

class OpenSocket {
public:
    OpenSocket() : number_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        const timeval limit = {jvm_answer_seconds, 0};
        ::setsockopt(number_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        ::setsockopt(number_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    }
    ~OpenSocket() {
        if (number_ >= 0) ::close(number_);
    }
    OpenSocket(const OpenSocket&) = delete;
    OpenSocket& operator=(const OpenSocket&) = delete;
    int number() const { return number_; }

private:
    int number_;
};

std::string jvm_file(std::uint32_t process_id, const char* name) {
    return read_small_file(fmt::format("/proc/{}/{}", process_id, name)).value_or("");
}

/* What the process itself is called in its own namespace: its files are named by that. */
std::uint32_t innermost_number(std::uint32_t process_id) {
    const std::string status = jvm_file(process_id, "status");
    const std::size_t line = status.find("\nNSpid:");
    if (line == std::string::npos) return process_id;
    const std::string numbers = status.substr(line + 1, status.find('\n', line + 1) - line - 1);
    const std::size_t last = numbers.find_last_of("\t ");
    return static_cast<std::uint32_t>(std::strtoul(numbers.c_str() + last + 1, nullptr, 10));
}

Result<bool> maps_file_named(std::uint32_t process_id, std::string_view name) {
    const auto maps = read_small_file(fmt::format("/proc/{}/maps", process_id));
    if (!maps) return maps.error();
    return maps->find(name) != std::string::npos;
}

Status is_jvm(std::uint32_t process_id) {
    const auto has_library = maps_file_named(process_id, "/libjvm.so");
    if (!has_library && (has_library.error().number() == EACCES || has_library.error().number() == EPERM))
        return has_library.error()
            .with("Whether process {} is a Java virtual machine can not be seen", process_id)
            .hint("Record it as its own user, or as root.");
    if (!has_library) return has_library.error().with("Process {}", process_id);
    if (!*has_library)
        return Error("Process {} is no Java virtual machine: it has no libjvm.so.", process_id);
    return ok();
}

/* As the JVM itself says, or, to who may not ask it, its command line and environment. */
bool is_attaching_forbidden(std::uint32_t process_id) {
    if (const auto flag = jvm_flag(process_id, "DisableAttachMechanism")) return *flag;
    for (const char* const place : {"cmdline", "environ"})
        if (jvm_file(process_id, place).find("+DisableAttachMechanism") != std::string::npos) return true;
    return false;
}

/* SIGQUIT asks a JVM to listen, if the file is there. One that does not attach answers with a list of its threads on its
 * output, one without a handler ends. */
Status may_be_asked(std::uint32_t process_id) {
    if (!has_begun_jvm(process_id).value_or(true))
        return Error(
                   "Process {} has a libjvm.so and no JVM in it yet, so a signal would be the program's own.",
                   process_id)
            .hint("Try again when it has begun.");
    const auto status = process_status(process_id);
    if (!status) return status.error();
    if (!catches(*status, SIGQUIT))
        return Error("The JVM of process {} does not listen for SIGQUIT (it has only begun, or was started "
                     "with -Xrs), "
                     "by which it is asked to attach.",
                     process_id)
            .hint("Start it with `plumb record --jvm -- java ...`.");
    if (status->state == 'T' || status->state == 't')
        return Error("The JVM of process {} is stopped, so it can not answer.", process_id)
            .hint("Let it go on (`kill -CONT {}`).", process_id);
    if (const ThreadRoom room = thread_room(process_id); room.threads < threads_of_attaching)
        return Error("The JVM of process {} may begin {} more threads ({}), and ends if one that listens can "
                     "not begin.",
                     process_id, room.threads, room.limit)
            .hint("Raise that limit, or start it with `plumb record --jvm -- java ...`.");
    if (const MemoryRoom room = memory_room(process_id); room.bytes < bytes_of_attaching)
        return Error(
                   "The JVM of process {} has {} left ({}), and ends if a thread that listens can not begin.",
                   process_id, in_mib(room.bytes), room.limit)
            .hint("Raise that limit, or start it with `plumb record --jvm -- java ...`.");
    if (is_attaching_forbidden(process_id))
        return Error("The JVM of process {} was started with -XX:+DisableAttachMechanism.", process_id)
            .hint("Start it with `plumb record --jvm -- java ...`.");
    return ok();
}

bool is_socket(const std::string& path) {
    struct stat found = {};
    return ::lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode);
}

/* Anybody may put a file of that name into /tmp. */
Status is_of_jvm(const std::string& path, std::uint32_t process_id) {
    struct stat found = {};
    const auto status = process_status(process_id);
    if (!status || ::lstat(path.c_str(), &found) != 0 || found.st_uid == status->effective_user_id)
        return ok();
    return Error("{} is user {}'s, and the JVM of process {} is user {}'s: it can not have made it.", path,
                 found.st_uid, process_id, status->effective_user_id)
        .hint("Remove it, and try again.");
}

/* Of all that ask JVMs with this /tmp one is at it at a time, for a moment: a lock, which ends with whoever holds it. */
class AskingTurn {
public:
    explicit AskingTurn(const std::string& process)
        : folder_(::open((process + "/root/tmp").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
    /* Also where such a folder can not be locked. */
    bool is_ours() const { return ::flock(folder_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

private:
    FileDescriptor folder_;
};

constexpr unsigned ending_looks = 30;
constexpr const char* attach_folders[] = {"cwd", "root/tmp"};

/* Somebody else's, jcmd's perhaps, who has asked a moment ago and waits for the socket; or left it when he was killed. */
bool is_asked_by_another(const std::string& process, const std::string& name) {
    constexpr time_t patience_seconds = 9;
    for (const char* const place : attach_folders) {
        struct stat found = {};
        if (::lstat(fmt::format("{}/{}/{}", process, place, name).c_str(), &found) == 0 &&
            std::abs(::time(nullptr) - found.st_mtime) <= patience_seconds)
            return true;
    }
    return false;
}

/* It is taken away wherever it is by then: no path of the process's leads there when that has ended. */
class AttachFile {
public:
    AttachFile(FileDescriptor folder, std::string name)
        : folder_(std::move(folder)), name_(std::move(name)) {}
    AttachFile(AttachFile&&) = default;
    AttachFile& operator=(AttachFile&&) = default;
    ~AttachFile() {
        if (folder_.is_open()) ::unlinkat(folder_.get(), name_.c_str(), 0);
    }
    void leave() { folder_.reset(); }

private:
    FileDescriptor folder_;
    std::string name_;
};

/* In the process's own folder, or, where that can not be written, in its /tmp: both are looked into. */
Result<AttachFile> make_attach_file(const std::string& process, const std::string& name) {
    for (const char* const place : attach_folders) {
        FileDescriptor folder(
            ::open(fmt::format("{}/{}", process, place).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (!folder.is_open()) continue;
        const int file =
            ::openat(folder.get(), name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file < 0 && errno != EEXIST) continue;
        if (file >= 0) ::close(file);
        return AttachFile(std::move(folder), name);
    }
    return Error::from_errno(errno, "Could not make {} in the process's folder, nor in its /tmp", name);
}

/* Whether it has become true, and nothing has ended that. */
template <typename Condition>
bool comes_true(std::uint32_t process_id, unsigned looks, const Condition& condition) {
    for (unsigned i = 0; i < looks && !condition(); i++) {
        if (!process_start_boottime_ns(process_id)) break;
        ::usleep(jvm_attach_look_us);
    }
    return condition();
}

/* Which is somebody else's by now if its process has ended meanwhile: many programs end by SIGQUIT. Of kernels before 5.3 it is not known. */
struct AskedProcess {
    std::uint32_t process_id;
    FileDescriptor file; /* made before it was found to be a JVM */

    explicit AskedProcess(std::uint32_t id)
        : process_id(id), file(static_cast<int>(::syscall(SYS_pidfd_open, id, 0))) {}
    Status quit() const {
        const long sent = file.is_open() ? ::syscall(SYS_pidfd_send_signal, file.get(), SIGQUIT, nullptr, 0)
                                         : ::kill(static_cast<pid_t>(process_id), SIGQUIT);
        return sent == 0 ? ok() : Error::from_errno(errno, "Could not signal process {}", process_id);
    }
};

/* By SIGQUIT, once: a JVM that has its socket already when it comes to a second one answers that with a list of its threads. So who finds
 * that somebody else has just asked does not: nothing then. */
Result<std::optional<AttachFile>> ask_to_listen(const AskedProcess& process, const std::string& folder,
                                                const std::string& name, const std::string& path) {
    const AskingTurn turn(folder);
    if (!turn.is_ours() || is_asked_by_another(folder, name) || is_socket(path))
        return std::optional<AttachFile>();
    if (const Status may = may_be_asked(process.process_id); !may) return may.error();
    auto asked = make_attach_file(folder, name);
    if (!asked) return asked.error();
    if (const Status quit = process.quit(); !quit) return quit.error();
    return std::optional(std::move(*asked));
}

/* Has the JVM listen, if it does not yet; as one with -Xrs does from its start on. */
Status begin_listening(const AskedProcess& process, const std::string& folder, std::uint32_t number,
                       const std::string& path) {
    const std::uint32_t process_id = process.process_id;
    const std::string name = fmt::format(".attach_pid{}", number);
    if (const Status is = is_of_jvm(path, process_id); !is) return is.error();
    constexpr unsigned looks_beside_others = 3 * jvm_attach_looks / 2;
    Result<std::optional<AttachFile>> asked{std::optional<AttachFile>()};
    const bool is_asked = comes_true(process_id, looks_beside_others, [&] {
        if (is_socket(path)) return true;
        if (asked && !*asked) asked = ask_to_listen(process, folder, name, path);
        return !asked || asked->has_value();
    });
    if (!asked) return asked.error();
    if (!is_asked)
        return Error("Somebody else has been asking JVMs with the /tmp of process {} for 15 s.", process_id)
            .hint("Is another recorder stopped?");
    if (comes_true(process_id, jvm_attach_looks, [&] { return is_socket(path); })) return ok();
    if (!process_start_boottime_ns(process_id))
        return Error("Process {} ended before its JVM answered.", process_id);
    /* It would answer with a list of its threads when it comes to it. */
    if (*asked) (*asked)->leave();
    return Error("The JVM of process {} did not answer within 10 s ({} is not there).", process_id, path)
        .hint("It may be very busy, or frozen. What it was asked by, .attach_pid{} in its folder or in /tmp, "
              "is left for it: "
              "try again when it goes on.",
              number);
}

/* Each word ends with a NUL. The answer is a number in a line, and what the command says. */
Result<std::string> ask_jvm(const std::string& path, const std::string& words) {
    const OpenSocket socket;
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) return Error("{} is too long a name for a socket.", path);
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    if (::connect(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        const Error refused = Error::from_errno(errno, "Could not connect to {}", path);
        return refused.number() == ECONNREFUSED
                   ? refused.hint("Nobody listens there: if it is left over, remove it, and try again.")
                   : refused;
    }
    if (::send(socket.number(), words.data(), words.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(words.size()))
        return Error::from_errno(errno, "Could not write to {}", path);
    std::string answer;
    char buffer[1024];
    constexpr std::size_t answer_bytes_max = 65536;
    while (answer.size() < answer_bytes_max) {
        const ssize_t got = ::recv(socket.number(), buffer, sizeof(buffer), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Error::from_errno(errno, "Could not read the JVM's answer");
        if (got == 0) break;
        answer.append(buffer, static_cast<std::size_t>(got));
    }
    return answer;
}

/* The same file in the process's root. */
bool sees_same_file(const std::string& folder, const std::string& path) {
    struct stat here = {}, there = {};
    return ::stat(path.c_str(), &here) == 0 && ::stat((folder + "/root" + path).c_str(), &there) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

} // namespace

Result<std::string> java_tool_options(const char* inherited, const std::string& agent_options) {
    const auto agent = find_probe("jvm");
    if (!agent) return agent.error();
    if (agent->find('=') != std::string::npos)
        return Error("{} cannot be an agent: a JVM takes what follows a \"=\" for the agent's options.",
                     *agent);
    const auto option =
        quoted_for_java("-agentpath:" + *agent + (agent_options.empty() ? "" : "=") + agent_options);
    if (!option) return option.error();
    std::string value = inherited != nullptr ? inherited : "";
    return value + (value.empty() ? "" : " ") + *option;
}

bool has_jvm_agent(std::uint32_t process_id) {
    return maps_file_named(process_id, "/libplumb-jvm.so").value_or(false);
}

/* A JVM that is asked to listen and to load makes calls that its program never makes. */
static Status may_make_calls(std::uint32_t process_id) {
    const OwnFilter filter = own_filter_of(process_id);
    if (filter != OwnFilter::yes && filter != OwnFilter::hidden) return ok();
    return Error("The JVM of process {} has a seccomp filter, which may end it for a call that attaching "
                 "makes; it is left as it is.",
                 process_id)
        .hint("`--seccomp` (of `plumb record` and `plumb stat`) attaches all the same.");
}

/* Has the JVM load the agent with these options, and returns what it says. */
static Result<std::string> load_into_jvm(std::uint32_t process_id, const std::string& agent,
                                         const std::string& options) {
    if (options.size() > jvm_argument_bytes_max)
        return Error("What is asked of the agent has {} bytes, and a JVM takes {}.", options.size(),
                     jvm_argument_bytes_max)
            .hint("Name fewer methods, with fewer words.");
    const AskedProcess asked(process_id);
    if (const Status is = is_jvm(process_id); !is) return is.error();
    const std::string folder = fmt::format("/proc/{}", process_id);
    if (!sees_same_file(folder, agent))
        return Error("The JVM of process {} has another root, in which {} is not the same file.", process_id,
                     agent)
            .hint("Bring Plumb to the same place there.");
    struct stat process = {};
    if (::stat(folder.c_str(), &process) != 0) return Error("There is no process {}.", process_id);
    const std::uint32_t number = innermost_number(process_id);
    const std::string path = fmt::format("{}/root/tmp/.java_pid{}", folder, number);
    const AsUserOf user(process);
    if (const Status listens = begin_listening(asked, folder, number, path); !listens) return listens.error();
    if (const Status is = is_of_jvm(path, process_id); !is) return is.error();
    using std::string_literals::operator""s;
    auto answer = ask_jvm(path, "1\0load\0"s + agent + "\0true\0"s + options + "\0"s);
    if (!answer) return answer.error().with("The JVM of process {}", process_id);
    return answer;
}

/* Behind the number, in one line. */
static std::string what_it_said(const std::string& answer) {
    std::string said;
    const std::size_t first = answer.find('\n');
    for (const char byte : first == std::string::npos ? answer : answer.substr(first + 1))
        if (byte != '\n')
            said += byte;
        else if (!said.empty() && said.back() != ' ')
            said += ' ';
    while (!said.empty() && said.back() == ' ')
        said.pop_back();
    return said.empty() ? "it said nothing" : said;
}

static Status try_to_attach(std::uint32_t process_id, const std::string& agent_options, bool filtered_too) {
    const auto agent = find_probe("jvm");
    if (!agent) return agent.error();
    if (const Status is = is_jvm(process_id); !is) return is.error();
    if (const Status may = filtered_too ? ok() : may_make_calls(process_id); !may) return may.error();
    const auto answer = load_into_jvm(process_id, *agent, agent_options);
    if (!answer) return answer.error();
    if (answer->starts_with("0\n") && answer->find("not loaded") == std::string::npos &&
        has_jvm_agent(process_id))
        return ok();
    return Error("The JVM of process {} did not load {}: {}", process_id, *agent, what_it_said(*answer));
}

/* Or is about to: it has given its memory back, and waits to be taken note of. */
static bool has_ended(std::uint32_t process_id) {
    if (!process_start_boottime_ns(process_id)) return true;
    char executable = 0;
    return ::readlink(fmt::format("/proc/{}/exe", process_id).c_str(), &executable, 1) < 0 && errno == ENOENT;
}

Status attach_jvm_agent(std::uint32_t process_id, const std::string& agent_options, bool filtered_too) {
    const Status attached = try_to_attach(process_id, agent_options, filtered_too);
    if (attached) return ok();
    /* One that is ending may have closed the connection, and still be there. */
    const unsigned looks = maps_file_named(process_id, "/libjvm.so").value_or(false) ? ending_looks : 1;
    for (unsigned i = 0; i < looks; i++) {
        if (i != 0) ::usleep(jvm_attach_look_us);
        if (has_ended(process_id))
            return Error("Process {} has ended, before its JVM had the agent.", process_id);
    }
    return attached;
}

void tell_jvm_agent(std::uint32_t process_id, const std::string& agent_options, bool filtered_too) {
    if (!has_jvm_agent(process_id)) return;
    const Status told = attach_jvm_agent(process_id, agent_options, filtered_too);
    (void)told; /* who attaches behind this says why it can not */
}

/* What the agent returns the JVM tells: "return code: N" (or "Agent_OnAttach failed ... N"), behind its own. */
Result<int> ask_jvm_agent(std::uint32_t process_id, const std::string& question) {
    const auto agent = find_probe("jvm");
    if (!agent) return agent.error();
    const auto answer = load_into_jvm(process_id, *agent, question);
    if (!answer) return answer.error();
    const std::string_view words = "return code: ";
    const std::size_t place = answer->find(words);
    if (place == std::string::npos)
        return Error("The JVM of process {} did not ask the agent: {}", process_id, *answer);
    return static_cast<int>(std::strtol(answer->c_str() + place + words.size(), nullptr, 10));
}

} // namespace plumb
