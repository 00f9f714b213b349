#include "trace/trace_reader.h"

#include "base/ctf_layout.h"
#include "base/trace_folders.h"
#include "trace/stream_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

namespace plumb {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_metadata_bytes = std::size_t{1} << 28;
constexpr int max_folder_depth = 16;

struct FoundTraces {
    std::vector<std::string> folders; /* each with a trace */
    std::vector<std::string> aside;   /* not looked into */
    std::vector<std::string> closed;  /* nor these, which may not be read */
    std::vector<std::string> bare;    /* nor these, which have a summary and no trace */
};

/* Whoever may not list one, or not reach what is in it, can not tell that there is no trace. */
bool is_closed(const std::string& folder) {
    return ::faccessat(AT_FDCWD, folder.c_str(), R_OK | X_OK, AT_EACCESS) != 0 && errno == EACCES;
}

std::string who_may_read(const std::string& folder) {
    struct stat status {};
    return ::stat(folder.c_str(), &status) != 0 || status.st_uid == 0
               ? std::string("Read it as root (sudo).")
               : fmt::format("Read it as its owner, user {}, or as root (sudo).", status.st_uid);
}

/* Nothing of one that has vanished since it was listed, or has nothing to list (/proc of a zombie). */
Result<std::vector<fs::path>> folders_in(const fs::path& folder) {
    std::vector<fs::path> folders;
    std::error_code error, ignored;
    fs::directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
    for (const fs::directory_iterator end; !error && at != end; at.increment(error))
        if (at->is_directory(ignored) && !at->is_symlink(ignored)) folders.push_back(at->path());
    const int number = error.value();
    if (error && number != ENOENT && number != ENOTDIR && number != ESRCH && number != EINVAL)
        return Error::from_errno(number, "Could not look through {}", folder.string());
    return folders;
}

Status look_through(const fs::path& folder, int depth, FoundTraces& found) {
    std::error_code ignored;
    const std::size_t found_before = found.folders.size() + found.closed.size();
    if (is_closed(folder))
        found.closed.push_back(folder.string());
    else if (fs::is_regular_file(folder / "metadata", ignored))
        found.folders.push_back(folder.string());
    if (depth > max_folder_depth) return ok();
    const Result<std::vector<fs::path>> inside = folders_in(folder);
    if (!inside) return inside.error();
    for (const fs::path& each : *inside) {
        if (is_aside_folder(each.filename().native()))
            found.aside.push_back(each.string());
        else if (Status looked = look_through(each, depth + 1, found); !looked)
            return looked;
    }
    if (found.folders.size() + found.closed.size() == found_before &&
        fs::is_regular_file(folder / "summary.json", ignored))
        found.bare.push_back(folder.string());
    return ok();
}

/* Those below (and with) `path`, sorted by name. Links are not followed, nor is what was put aside read beside what is to
 * replace it. */
Result<FoundTraces> find_traces(const std::string& path) {
    FoundTraces found;
    std::error_code error;
    if (path.empty())
        return Error("The name of the trace's folder is empty.")
            .hint("Name the folder that was given to `plumb record -o`; the one that you are in is `.`.");
    if (!fs::is_directory(path, error)) {
        if (error == std::errc::permission_denied)
            return Error::from_errno(EACCES, "Could not look at {}", path)
                .hint("A folder above it may not be entered: read it as who may, or as root (sudo).");
        if (!error && fs::exists(path, error))
            return Error("{} is not a folder; a trace is one.", path)
                .hint("Name the folder that was given to `plumb record -o`.");
        return Error("There is no folder {}.", path);
    }
    if (Status looked = look_through(path, 0, found); !looked) return looked.error();
    std::sort(found.folders.begin(), found.folders.end());
    std::sort(found.aside.begin(), found.aside.end());
    std::sort(found.closed.begin(), found.closed.end());
    std::sort(found.bare.begin(), found.bare.end());
    return found;
}

Result<FileDescriptor> open_file(const std::string& path, struct stat& status) {
    FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file.is_open()) return Error::from_errno(errno, "Could not open {}", path);
    if (::fstat(file.get(), &status) != 0) return Error::from_errno(errno, "Could not look at {}", path);
    if (!S_ISREG(status.st_mode)) return Error("{} is not a regular file.", path);
    return file;
}

} // namespace

TraceReader::TraceReader() = default;
TraceReader::TraceReader(TraceReader&&) noexcept = default;
TraceReader& TraceReader::operator=(TraceReader&&) noexcept = default;
TraceReader::~TraceReader() = default;

/* A chunk is renamed when it is finished, and may be removed when it is old, between the look at what there is and the next. */
Result<TraceReader> TraceReader::open(const std::string& path) {
    constexpr int tries_max = 5;
    Result<TraceReader> opened = open_once(path);
    for (int tries = 1; tries < tries_max && !opened && opened.error().number() == ENOENT; tries++)
        opened = open_once(path);
    return opened;
}

Result<TraceReader> TraceReader::open_once(const std::string& path) {
    Result<FoundTraces> found = find_traces(path);
    if (!found) return found.error();
    if (found->folders.empty() && !found->closed.empty())
        return Error::from_errno(EACCES, "Could not read {}", found->closed.front())
            .hint("{}", who_may_read(found->closed.front()));
    if (found->folders.empty() && !found->aside.empty())
        return Error("{} holds no trace but an old one that was put aside, {}.", path, found->aside.front())
            .hint("A recorder with --force that begins to record there, or was killed before, has put it "
                  "there. Name that folder to see it.");
    if (found->folders.empty())
        return Error("{} holds no trace: there is no file `metadata` in it or below it.", path)
            .hint("`plumb record -o DIR -- COMMAND` makes a trace; of a flight recorder that was killed, "
                  "`plumb "
                  "extract` may.");
    TraceReader reader;
    reader.aside_ = std::move(found->aside);
    reader.closed_ = std::move(found->closed);
    reader.bare_ = folders_that_stay(std::move(found->bare));
    for (const std::string& folder : found->folders)
        if (Status added = reader.add_folder(folder); !added) return added.error();
    if (Status prepared = reader.prepare(); !prepared) return prepared.error();
    return reader;
}

Result<TraceReader> TraceReader::from_memory(const TraceBytes& bytes) {
    TraceReader reader;
    Result<const TraceLayout*> layout = reader.add_layout(bytes.metadata, {});
    if (!layout) return layout.error();
    for (const std::span<const uint8_t> stream : bytes.streams)
        reader.streams_.push_back(std::make_unique<StreamReader>(
            **layout, stream, fmt::format("stream {}", reader.streams_.size())));
    if (Status prepared = reader.prepare(); !prepared) return prepared.error();
    return reader;
}

Result<const TraceLayout*> TraceReader::add_layout(std::string_view metadata_file,
                                                   const std::string& folder) {
    Result<std::string> text = tsdl::metadata_text(metadata_file);
    if (!text) return text.error();
    Result<tsdl::Metadata> metadata = tsdl::parse(*text);
    if (!metadata) return metadata.error();
    Result<std::unique_ptr<TraceLayout>> layout =
        TraceLayout::make(std::move(*metadata), static_cast<uint32_t>(event_infos_.size()));
    if (!layout) return layout.error();
    for (const auto& event : (*layout)->events())
        event_infos_.push_back(event.get());
    add_origin(**layout, folder);
    layouts_.push_back(std::move(*layout));
    folders_.push_back(folder);
    return layouts_.back().get();
}

/* Folders of other tracers' traces are made otherwise, but LTTng's say of which session of which machine they are: the kernel and
 * each user's programs have one each, and so has each part of a session that is rotated. */
static std::string session_of(const TraceLayout& layout) {
    const tsdl::Metadata& metadata = layout.metadata();
    const std::string name = metadata.environment_text("trace_name");
    return name.empty() ? ""
                        : fmt::format("{}\n{}\n{}", metadata.environment_text("hostname"), name,
                                      metadata.environment_text("trace_creation_datetime"));
}

/* Of tracers that do not say even that, all are taken for one recording. */
void TraceReader::add_origin(const TraceLayout& layout, const std::string& folder) {
    std::filesystem::path place = layout.is_of_plumb() ? folder : session_of(layout);
    if (is_domain_folder(place.filename().native())) place = place.parent_path();
    /* A chunk tells again what those before it have told: who is read in several of them is one all the time. */
    const bool is_chunk = is_chunk_folder(place.filename().native());
    if (is_chunk) place = place.parent_path();
    const auto names = names_places_.try_emplace(place, static_cast<uint32_t>(names_places_.size())).first;
    if (is_snapshot_folder(place.filename().native())) place = place.parent_path();
    const auto recording = recordings_.try_emplace(place, static_cast<uint32_t>(recordings_.size())).first;
    if (names_.size() < names_places_.size()) names_.emplace_back();
    if (is_chunk) names_[names->second].expect_repetitions();

    const auto zero = layout.metadata().environment_number(monotonic_zero_entry);
    if (!monotonic_zero_ns_) monotonic_zero_ns_ = zero;
    origin_of_info_.insert(origin_of_info_.end(), layout.events().size(),
                           static_cast<uint32_t>(origins_.size()));
    origins_.push_back({names->second, recording->second, zero});
}

Status TraceReader::add_folder(const std::string& folder) {
    const std::string metadata_path = folder + "/metadata";
    Result<std::string> metadata = read_small_file(metadata_path, max_metadata_bytes);
    if (!metadata) return metadata.error();
    Result<const TraceLayout*> layout = add_layout(*metadata, folder);
    if (!layout) return layout.error().with("Could not understand {}", metadata_path);
    Result<std::vector<std::string>> names = list_directory(folder);
    if (!names) return names.error();
    for (const std::string& name : *names) {
        if (name == "metadata" || name.starts_with('.')) continue;
        const std::string path = folder + "/" + name;
        struct stat status {};
        if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) continue;
        if (Status added = add_stream_file(**layout, path); !added) return added;
    }
    return ok();
}

Status TraceReader::add_stream_file(const TraceLayout& layout, const std::string& path) {
    struct stat status {};
    Result<FileDescriptor> file = open_file(path, status);
    if (!file) return file.error();
    const auto bytes = static_cast<std::size_t>(status.st_size);
    if (bytes == 0) return ok();
    Result<MappedRegion> region = map_file(*file, bytes, false, path);
    if (!region) return region.error();
    const auto* const data = static_cast<const uint8_t*>(region->get_address());
    /* Read ahead; a failure costs speed only. */
    ::madvise(region->get_address(), bytes, MADV_SEQUENTIAL);
    files_.push_back(std::move(*region));
    streams_.push_back(std::make_unique<StreamReader>(layout, std::span(data, bytes), path));
    return ok();
}

/* Reads the statedump, which is small and tells the names for all that follows, and finds the start. */
Status TraceReader::prepare() {
    join_streams(streams_);
    const std::size_t processors = std::max(1U, std::thread::hardware_concurrency());
    reading_threads_ = static_cast<unsigned>(std::clamp<std::size_t>(streams_.size(), 1, processors));
    int64_t first_event = std::numeric_limits<int64_t>::max(), first_of_all = first_event;
    for (const auto& stream : streams_) {
        if (!stream->next()) {
            stream->rewind();
            continue;
        }
        const Event& event = stream->event();
        first_of_all = std::min(first_of_all, event.time_ns);
        if (event.stream->is_statedump) {
            TraceNames& names = names_[origin_of(*event.info).names];
            /* First: what is written meanwhile may be behind what is read here, and is not claimed then. */
            stream->rewind();
            if (event.stream->has_named_spans) take_named_times(*stream, names);
            while (stream->next())
                names.add(event);
        } else {
            first_event = std::min(first_event, event.time_ns);
        }
        stream->rewind();
    }
    uint32_t next_number = 0;
    for (TraceNames& names : names_) {
        names.finish(next_number);
        next_number = names.next_number();
    }
    constexpr int64_t none = std::numeric_limits<int64_t>::max();
    start_ns_ = first_event != none ? first_event : first_of_all != none ? first_of_all : 0;
    return ok();
}

void TraceReader::take_named_times(StreamReader& stream, TraceNames& names) {
    stream.look_at_packets([&](const PacketPlace& packet) {
        const CyclesToNs& clock = stream.stream()->clock;
        names.add_named_time({clock(packet.timestamp_begin), clock(stream.packet_end())});
        return true;
    });
}

void TraceReader::skip_before(int64_t time_ns) {
    for (const auto& stream : streams_)
        stream->skip_before(time_ns);
}

void TraceReader::start() {
    started_ = true;
    uint32_t rank = static_cast<uint32_t>(streams_.size());
    for (const auto& stream : streams_) {
        ++rank;
        if (!stream->next()) continue;
        const Event& event = stream->event();
        const uint32_t place =
            event.stream->is_statedump ? rank - static_cast<uint32_t>(streams_.size()) : rank;
        heap_.push_back({event.time_ns, place, stream.get()});
    }
    std::sort(heap_.begin(), heap_.end()); /* a sorted list is a heap */
}

/* heap_[0] may be later than those below it. */
void TraceReader::sift_down() {
    const Waiting moving = heap_[0];
    const std::size_t size = heap_.size();
    std::size_t at = 0;
    for (;;) {
        std::size_t child = 2 * at + 1;
        if (child >= size) break;
        if (child + 1 < size && heap_[child + 1] < heap_[child]) ++child;
        if (!(heap_[child] < moving)) break;
        heap_[at] = heap_[child];
        at = child;
    }
    heap_[at] = moving;
}

std::vector<StreamLossPlaces> TraceReader::loss_places() {
    std::vector<StreamLossPlaces> all;
    for (const auto& stream : streams_)
        if (StreamLossPlaces its = stream->loss_places(); !its.places.empty()) all.push_back(std::move(its));
    return all;
}

const Event* TraceReader::next() {
    if (!started_) {
        start();
    } else if (!heap_.empty()) {
        StreamReader* const stream = heap_[0].stream;
        if (stream->next()) {
            heap_[0].time_ns = stream->event().time_ns;
        } else {
            heap_[0] = heap_.back();
            heap_.pop_back();
        }
        if (heap_.size() > 1) sift_down();
    }
    return heap_.empty() ? nullptr : &heap_[0].stream->event();
}

const ThreadSpan& TraceReader::thread_span_of(const Event& event, ThreadCache& cache) const {
    const uint32_t place = origin_of(*event.info).names;
    const bool has_spans = event.stream->has_named_spans && names_[place].has_named_times();
    const uint32_t names = place * 2 + (has_spans ? 1 : 0);
    ThreadCache::KnownThread& known = cache.known_[(event.thread_id + names) % cache.known_.size()];
    if (event.thread_id != known.thread_id || names != known.names || event.time_ns < known.span.from_ns ||
        event.time_ns >= known.span.until_ns) {
        const TraceNames& all = names_[place];
        known.thread_id = event.thread_id;
        known.names = names;
        known.span = event.thread_id == 0 ? ThreadSpan{}
                     : has_spans          ? all.find_named_thread(event.thread_id, event.time_ns)
                                          : all.find_thread(event.thread_id, event.time_ns);
    }
    return known.span;
}

void TraceReader::read_streams(const std::function<void(StreamReader&, unsigned)>& read) {
    std::vector<StreamReader*> largest_first;
    for (const auto& stream : streams_)
        largest_first.push_back(stream.get());
    std::stable_sort(
        largest_first.begin(), largest_first.end(),
        [](const StreamReader* a, const StreamReader* b) { return a->size_bytes() > b->size_bytes(); });
    std::atomic<std::size_t> taken = 0;
    std::vector<std::exception_ptr> failures(reading_threads());
    const auto work = [&](unsigned thread) {
        try {
            for (std::size_t at; (at = taken.fetch_add(1)) < largest_first.size();)
                read(*largest_first[at], thread);
        } catch (...) { /* no memory */
            failures[thread] = std::current_exception();
        }
    };
    std::vector<std::thread> helpers;
    helpers.reserve(reading_threads());
    try {
        for (unsigned thread = 1; thread < reading_threads(); thread++)
            helpers.emplace_back(work, thread);
    } catch (const std::system_error&) {
        /* A limit of processes: those that could be begun do it, and this one. */
    }
    work(0);
    for (std::thread& helper : helpers)
        helper.join();
    for (const std::exception_ptr& failure : failures)
        if (failure) std::rethrow_exception(failure);
}

uint64_t TraceReader::events_without_names() const {
    constexpr int64_t ever = std::numeric_limits<int64_t>::min(), never = std::numeric_limits<int64_t>::max();
    uint64_t count = 0;
    for (const auto& stream : streams_) {
        StreamReader again(stream->layout(), stream->bytes(), stream->name());
        if (!again.next() || !again.event().stream->has_named_spans || again.event().stream->is_statedump)
            continue;
        const TraceNames& names = names_of(again.event());
        if (!names.has_named_times()) continue;
        const std::vector<NamedTime>& named = names.named_times();
        for (std::size_t i = 0; i <= named.size(); i++) {
            const int64_t from_ns = i == 0 ? ever : named[i - 1].until_ns;
            const int64_t until_ns = i == named.size() ? never : named[i].from_ns;
            if (until_ns == ever) continue;
            again.rewind();
            again.skip_before(from_ns);
            while (again.next() && again.event().time_ns < until_ns)
                count += i == 0 || again.event().time_ns > from_ns ? 1 : 0;
        }
    }
    return count;
}

StreamLosses TraceReader::losses() const {
    StreamLosses sum;
    for (const auto& stream : streams_) {
        const StreamLosses& losses = stream->losses();
        sum.events_discarded += losses.events_discarded;
        sum.packets_lost += losses.packets_lost;
        sum.unknown_events += losses.unknown_events;
        sum.damaged_packets += losses.damaged_packets;
    }
    return sum;
}

std::vector<std::string> TraceReader::problems() const {
    std::vector<std::string> all;
    for (const auto& stream : streams_)
        all.insert(all.end(), stream->problems().begin(), stream->problems().end());
    return all;
}

} // namespace plumb
