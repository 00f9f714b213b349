/*
 * The text of a metadata file. LTTng writes it in packets:
 *
 *   byte 0      4       20         24             28            32          33         34       35     36     37
 *        +------+-------+----------+--------------+-------------+-----------+----------+--------+------+------+--
 *        | magic| uuid  | checksum | content size | packet size | compressed| encrypted| cksum  | major| minor| text
 *        +------+-------+----------+--------------+-------------+-----------+----------+--------+------+------+--
 *
 * Sizes are in bits and count the header. The magic number shows the byte order. (CTF 1.8, section 7.1.)
 */
#include "trace/ctf/tsdl.h"

#include <bit>
#include <cstring>

namespace plumb::tsdl {
namespace {

constexpr uint32_t packet_magic = 0x75d11d57;
constexpr std::size_t packet_header_bytes = 37;
constexpr char ctf2_start = '\x1e'; /* of each of its pieces of JSON (RFC 7464) */

uint32_t load_u32(std::string_view bytes, std::size_t offset, bool swap) {
    uint32_t value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return swap ? __builtin_bswap32(value) : value;
}

} // namespace

Result<std::string> metadata_text(std::string_view bytes) {
    if (bytes.starts_with(ctf2_start))
        return Error("The metadata is of CTF 2, which is not read yet.")
            .hint("babeltrace2 2.1 or later makes CTF 1.8 of it: babeltrace2 convert DIR "
                  "--component=sink.ctf.fs "
                  "--params='path=\"NEW\",ctf-version=\"1\"'");
    if (bytes.size() < packet_header_bytes) return std::string(bytes);
    const uint32_t first = load_u32(bytes, 0, false);
    const bool swap = first == __builtin_bswap32(packet_magic);
    if (first != packet_magic && !swap) return std::string(bytes);
    std::string text;
    for (std::size_t at = 0; at < bytes.size();) {
        const std::string_view rest = bytes.substr(at);
        if (rest.size() < packet_header_bytes)
            return Error("The metadata ends inside the header of a packet, at byte {}.", at);
        if (load_u32(rest, 0, swap) != packet_magic)
            return Error("The metadata has no packet where one should begin, at byte {}.", at);
        const std::size_t content_bytes = load_u32(rest, 24, swap) / 8;
        const std::size_t packet_bytes = load_u32(rest, 28, swap) / 8;
        if (content_bytes < packet_header_bytes || packet_bytes < content_bytes || packet_bytes > rest.size())
            return Error("A packet of the metadata, at byte {}, has impossible sizes ({} of {} bytes).", at,
                         content_bytes, packet_bytes);
        if (rest[32] != 0 || rest[33] != 0)
            return Error("The metadata is compressed or encrypted, which is not understood.");
        text += rest.substr(packet_header_bytes, content_bytes - packet_header_bytes);
        at += packet_bytes;
    }
    return text;
}

} // namespace plumb::tsdl
