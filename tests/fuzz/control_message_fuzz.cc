// What comes over the socket of plumb-consumerd, in pieces: heads of messages, requests, descriptions of sessions with their rules.
#include "consumerd/daemon/message.h"
#include "consumerd/daemon/session_description.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

using namespace plumb;

namespace {

void take(const std::string& text) {
    const auto request = parse_message(text);
    if (!request) return;
    (void)text_in(*request, "command");
    (void)read_rules(*request, "rules");
    (void)result_of_answer(text);
    const auto found = request->find("description");
    const auto session = read_description(found != request->end() ? *found : *request);
    if (!session) return;
    /* What is taken is given as it was. */
    const Json again = description_as_json(*session, true);
    const auto same = read_description(again);
    if (!same || description_as_json(*same, true) != again) std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string bytes(reinterpret_cast<const char*>(data), size);
    take(bytes);
    MessageReader reader(request_bytes_max);
    for (size_t at = 0; at < bytes.size(); at += 7) {
        reader.add(std::string_view(bytes).substr(at, 7));
        for (auto text = reader.next(); text && *text; text = reader.next())
            take(**text);
    }
    return 0;
}
