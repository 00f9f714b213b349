#include "trace/show/flame_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace plumb {
namespace {

constexpr double width = 1200, margin = 10, row_height = 17, head_height = 46, foot_height = 26;
constexpr double least_width = 0.1; /* narrower ones are not drawn */
constexpr double character_width = 7;
constexpr uint32_t depth_max = 1024;

/* How long the character is that `text` begins with, in UTF-8; 0: it is none that XML may have. */
std::size_t character_bytes(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    const std::size_t bytes = first < 0x80   ? 1
                              : first < 0xc2 ? 0
                              : first < 0xe0 ? 2
                              : first < 0xf0 ? 3
                              : first < 0xf5 ? 4
                                             : 0;
    if (bytes <= 1) return bytes == 1 && first >= ' ' && first != 0x7f ? 1 : 0;
    if (text.size() < bytes) return 0;
    uint32_t code = first & (0x7fu >> bytes);
    for (std::size_t i = 1; i < bytes; i++) {
        if ((byte(i) & 0xc0) != 0x80) return 0;
        code = code << 6 | (byte(i) & 0x3fu);
    }
    constexpr uint32_t least[] = {0x80, 0x800, 0x10000};
    const bool is_surrogate = code >= 0xd800 && code < 0xe000;
    return code < least[bytes - 2] || code > 0x10ffff || is_surrogate || code == 0xfffe || code == 0xffff
               ? 0
               : bytes;
}

/* Names come from programs: what would make the picture no XML is a question mark. */
std::string escaped_for_xml(std::string_view text) {
    std::string result;
    while (!text.empty()) {
        const std::size_t bytes = character_bytes(text);
        const std::string_view character = text.substr(0, std::max<std::size_t>(bytes, 1));
        text.remove_prefix(character.size());
        const char c = character[0];
        if (c == '<')
            result += "&lt;";
        else if (c == '>')
            result += "&gt;";
        else if (c == '&')
            result += "&amp;";
        else if (c == '"')
            result += "&quot;";
        else
            result += bytes == 0 ? "?" : character;
    }
    return result;
}

/* The same function has the same colour in every picture. */
std::string color_of(std::string_view name) {
    uint32_t hash = 2166136261u;
    for (const char c : name)
        hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    return fmt::format("rgb({},{},{})", 205 + hash % 50, 80 + hash / 64 % 130, hash / 8192 % 60);
}

uint32_t depth_of(const FlameNode& node, uint32_t depth) {
    uint32_t deepest = depth;
    if (depth < depth_max)
        node.each([&](const FlameNode& above) { deepest = std::max(deepest, depth_of(above, depth + 1)); });
    return deepest;
}

class Drawing {
public:
    Drawing(const FlameNode& root, const FlameText& text)
        : text_(text),
          whole_(root.weight > 0 ? root.weight : 1),
          height_(head_height + foot_height + row_height * (depth_of(root, 0) + 1)) {}

    double height() const { return height_; }
    void draw(const FlameNode& node, double x, uint32_t depth) {
        const double share = node.weight / whole_;
        const double wide = share * (width - 2 * margin);
        if (wide < least_width || depth > depth_max) return;
        const double y = height_ - foot_height - row_height * (depth + 1);
        const std::string name = escaped_for_xml(node.name);
        svg_ += fmt::format(
            "<g class=\"f\"><title>{} ({} {}, {:.2f}%)</title><rect x=\"{:.1f}\" y=\"{:.0f}\" "
            "width=\"{:.1f}\" height=\"{:.0f}\" fill=\"{}\"/><text x=\"{:.1f}\" y=\"{:.1f}\">{}</text></g>\n",
            name, node.weight_text, escaped_for_xml(text_.unit), share * 100, x, y, wide, row_height - 1,
            color_of(node.name), x + 3, y + 12, shortened(node.name, wide));
        double at = x;
        node.each([&](const FlameNode& above) {
            draw(above, at, depth + 1);
            at += above.weight / whole_ * (width - 2 * margin);
        });
    }
    const std::string& svg() const { return svg_; }

private:
    static std::string shortened(std::string_view name, double wide) {
        const auto fits = static_cast<std::size_t>(std::max(0.0, (wide - 6) / character_width));
        if (fits < 3) return {};
        return name.size() <= fits ? escaped_for_xml(name)
                                   : escaped_for_xml(whole_characters(name.substr(0, fits - 2))) + "..";
    }
    /* Without a part of a character of UTF-8 at its end. */
    static std::string_view whole_characters(std::string_view text) {
        while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80)
            text.remove_suffix(1);
        if (!text.empty() && (static_cast<unsigned char>(text.back()) & 0x80) != 0) text.remove_suffix(1);
        return text;
    }

    const FlameText& text_;
    double whole_;
    double height_;
    std::string svg_;
};

/* Click: the function is as wide as the picture; on the lowest row, or the word above: all again. Search marks what matches. */
constexpr const char* script = R"JS(
var frames = Array.from(document.querySelectorAll('g.f')).map(function (g) {
  var r = g.querySelector('rect');
  return {g: g, r: r, t: g.querySelector('text'), name: g.querySelector('title').textContent, x: +r.getAttribute('x'),
          w: +r.getAttribute('width'), y: +r.getAttribute('y'), fill: r.getAttribute('fill')};
});
var margin = 10, width = 1180, found = document.getElementById('found');
function label(f, w) {
  var name = f.name.replace(/ \([^()]*\)$/, ''), n = Math.floor((w - 6) / 7);
  f.t.textContent = n < 3 ? '' : name.length <= n ? name : name.slice(0, n - 2) + '..';
}
function zoom(at) {
  var scale = width / at.w;
  frames.forEach(function (f) {
    var below = f.y > at.y && f.x <= at.x + 0.05 && f.x + f.w >= at.x + at.w - 0.05;
    var inside = f.y <= at.y && f.x >= at.x - 0.05 && f.x + f.w <= at.x + at.w + 0.05;
    f.g.style.display = below || inside ? '' : 'none';
    f.g.style.opacity = below ? 0.5 : 1;
    var x = below ? margin : margin + (f.x - at.x) * scale, w = below ? width : f.w * scale;
    f.r.setAttribute('x', x); f.r.setAttribute('width', Math.max(w, 0)); f.t.setAttribute('x', x + 3); label(f, w);
  });
}
function search() {
  var what = prompt('Functions that match (a regular expression; empty: none)', ''), rule = null;
  if (what === null) return;
  try { rule = what ? new RegExp(what) : null; } catch (wrong) { alert(wrong); return; }
  var spans = [];
  frames.forEach(function (f) {
    var is = rule && rule.test(f.name.replace(/ \([^()]*\)$/, ''));
    f.r.setAttribute('fill', is ? 'rgb(230,0,230)' : f.fill);
    if (is) spans.push([f.x, f.x + f.w]);
  });
  spans.sort(function (a, b) { return a[0] - b[0]; });
  var sum = 0, end = 0;
  spans.forEach(function (s) { sum += Math.max(0, s[1] - Math.max(end, s[0])); end = Math.max(end, s[1]); });
  found.textContent = rule ? 'Found in ' + (100 * sum / width).toFixed(1) + '%' : '';
}
frames.forEach(function (f) { f.g.addEventListener('click', function () { zoom(f); }); });
document.getElementById('all').addEventListener('click', function () { zoom(frames[0]); });
document.getElementById('search').addEventListener('click', search);
)JS";

} // namespace

std::string flame_svg(const FlameNode& root, const FlameText& text) {
    Drawing drawing(root, text);
    drawing.draw(root, margin, 0);
    return fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
        "{0:.0f} {1:.0f}\">\n"
        "<style>text {{ font: 12px monospace; pointer-events: none; }} #all, #search {{ pointer-events: "
        "auto; cursor: pointer; "
        "fill: #006; }} g.f {{ cursor: pointer; }} g.f:hover rect {{ stroke: black; }}</style>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#fffcf4\"/>\n"
        "<text x=\"{2:.0f}\" y=\"18\" style=\"font-weight: bold\">{3}</text>\n"
        "<text id=\"all\" x=\"{2:.0f}\" y=\"36\">All</text><text id=\"search\" x=\"50\" "
        "y=\"36\">Search</text>"
        "<text id=\"found\" x=\"120\" y=\"36\"></text>\n{4}<script><![CDATA[{5}]]></script>\n</svg>\n",
        width, drawing.height(), margin, escaped_for_xml(text.title), drawing.svg(), script);
}

} // namespace plumb
