/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The patterns of rules and filters, over a whole text: `*` any characters, `?` one, `[a-z]` and `[!a-z]` sets, `\` quotes the next.
 * Characters are those of UTF-8; a byte that is in none is one by itself. As base/glob.h has them. The kernel's own glob_match() knows bytes
 * alone, and reads behind a text that ends where a set is.
 *
 * Linear in pattern times text: on a mismatch only the last `*` is tried again, one character further.
 */
#ifndef PLUMB_KMOD_GLOB_H
#define PLUMB_KMOD_GLOB_H

#include <linux/string.h>
#include <linux/types.h>

/* What is left of a text, or of a pattern. */
struct plumb_rest {
	const u8 *at;
	const u8 *end;
};

static inline bool plumb_begins_with(const struct plumb_rest *rest, u8 byte, size_t ahead)
{
	return (size_t)(rest->end - rest->at) > ahead && rest->at[ahead] == byte;
}

/* Steps over the first character, which is there. */
static inline u32 plumb_take_character(struct plumb_rest *rest)
{
	const u32 lone_byte = 0x110000; /* behind all that UTF-8 has */
	const u8 *const text = rest->at;
	const u8 first = *text;
	const u32 length = first < 0xc2 || first > 0xf4 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	u32 character = first & (0x7fu >> length);
	u32 i;

	rest->at = text + 1;
	if (length == 1)
		return first < 0x80 ? first : lone_byte + first;
	for (i = 1; i < length; i++) {
		if (text + i == rest->end || (text[i] & 0xc0) != 0x80)
			return lone_byte + first;
		character = character << 6 | (text[i] & 0x3fu);
	}
	rest->at = text + length;
	return character;
}

/* Matches one character against the set at the beginning of `pattern`, and steps over that; where it has no end, it is none. */
static inline bool plumb_is_set(struct plumb_rest *pattern, u32 character, bool *matches)
{
	struct plumb_rest set = { pattern->at + 1, pattern->end };
	const bool is_negated = plumb_begins_with(&set, '!', 0) || plumb_begins_with(&set, '^', 0);
	bool is_found = false, is_first = true;

	if (is_negated)
		set.at++;
	/* Looked for first: of a text that is long, each character would look through the whole pattern. */
	if (set.at == set.end || !memchr(set.at + 1, ']', set.end - set.at - 1))
		return false;
	for (; set.at != set.end && (is_first || !plumb_begins_with(&set, ']', 0)); is_first = false) {
		const u32 low = plumb_take_character(&set);
		u32 high = low;

		if (plumb_begins_with(&set, '-', 0) && set.end - set.at > 1 && !plumb_begins_with(&set, ']', 1)) {
			set.at++;
			high = plumb_take_character(&set);
		}
		is_found |= low <= character && character <= high;
	}
	if (set.at == set.end)
		return false;
	pattern->at = set.at + 1;
	*matches = is_found != is_negated;
	return true;
}

/* Matches one character against the element at the beginning of `pattern` (not a star), and steps over the element. */
static inline bool plumb_element_matches(struct plumb_rest *pattern, u32 character)
{
	bool matches = false;

	if (plumb_begins_with(pattern, '[', 0) && plumb_is_set(pattern, character, &matches))
		return matches;
	if (plumb_begins_with(pattern, '?', 0)) {
		pattern->at++;
		return true;
	}
	if (plumb_begins_with(pattern, '\\', 0) && pattern->end - pattern->at > 1)
		pattern->at++;
	return plumb_take_character(pattern) == character;
}

static inline bool plumb_glob_matches(const char *pattern_text, const char *whole)
{
	struct plumb_rest pattern = { (const u8 *)pattern_text, (const u8 *)pattern_text + strlen(pattern_text) };
	struct plumb_rest text = { (const u8 *)whole, (const u8 *)whole + strlen(whole) };
	struct plumb_rest after_star = { NULL, NULL }, star_text = { NULL, NULL };

	while (text.at != text.end) {
		struct plumb_rest behind_element, behind_text = text;
		u32 character;

		if (plumb_begins_with(&pattern, '*', 0)) {
			pattern.at++;
			after_star = pattern;
			star_text = text;
			continue;
		}
		behind_element = pattern;
		character = plumb_take_character(&behind_text);
		if (pattern.at != pattern.end && plumb_element_matches(&behind_element, character)) {
			pattern = behind_element;
			text = behind_text;
		} else if (after_star.at) {
			pattern = after_star;
			plumb_take_character(&star_text);
			text = star_text;
		} else {
			return false;
		}
	}
	while (plumb_begins_with(&pattern, '*', 0))
		pattern.at++;
	return pattern.at == pattern.end;
}

#endif
