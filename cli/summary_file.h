/*
 * A recording's summary.json as readers take it. Whoever wrote it may be no recorder, and may mean harm (it may have come over a
 * line), so it has bounds, far above those of any recorder's: of bytes, of values, of how deep they lie, and of members of one
 * object, each of which is compared with all before it.
 */
#ifndef PLUMB_CLI_SUMMARY_FILE_H
#define PLUMB_CLI_SUMMARY_FILE_H

#include "base/result.h"

#include <nlohmann/json.hpp>

#include <string>

namespace plumb {

/* An object. EPROTO: the file is no summary, or beyond those bounds. */
Result<nlohmann::ordered_json> read_summary(const std::string& path);

} // namespace plumb

#endif
