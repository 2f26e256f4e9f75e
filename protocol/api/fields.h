#pragma once
// Typed access to a request's JSON members and query parameters, with errors that name the member.
//
// A null member counts as absent, as clients expect. All functions throw BadRequest. Errors quote client text
// only in part, so that they stay a few lines long.
//
// A body records which members were looked up, in all objects read through it. Members never looked up have
// no meaning to the API: field_rules.h decides about them.
//
// The names of large objects are sorted once, so that looking up all known names costs no more than parsing
// the object.
//
// Threading: Fields refers to a value that must outlive it; the Fields of one body belong to one thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/token.h"
#include "protocol/api/body_limits.h"

namespace reprise::protocol {

/// kTokenIds raises the limit on values by BodyLimits::prompt_tokens.
enum class BodyHolds : std::uint8_t { kText, kTokenIds };

/// Parses a body; throws BadRequest unless it is an object within the limits.
Json parse_body(std::string_view body, const BodyLimits& limits, BodyHolds holds);

class Fields {
 public:
  /// Reads a body and records lookups.
  explicit Fields(const Json& body);
  /// Reads an object within `body`; lookups are recorded with the body's. `path` prefixes its names in
  /// messages.
  Fields(const Json& object, std::string path, const Fields& body);
  /// Reads an object whose unread members are not reported: a message, or a content part.
  Fields(const Json& object, std::string path);

  const Json& whole() const { return object_; }
  std::string path_of(std::string_view name) const;
  /// Returns null if the member is absent or null.
  const Json* find(std::string_view name) const;

  std::optional<bool> boolean(std::string_view name) const;
  bool boolean_or(std::string_view name, bool otherwise) const { return boolean(name).value_or(otherwise); }
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t min, std::int64_t max) const;
  std::optional<double> number(std::string_view name, double min, double max) const;
  const std::string* string(std::string_view name, std::size_t max_bytes) const;
  const Json::Array* array(std::string_view name) const;
  const Json* object(std::string_view name) const;
  /// Returns the members of the object of that name, or nullopt if it is absent.
  std::optional<Fields> within(std::string_view name) const;

  using Visit = std::function<void(const std::string& path, const Json& value)>;
  /// Calls `visit` for each non-null member of the body, and of its objects that were read, that was not
  /// looked up. Paths omit array indices: "tools[].name".
  void visit_unread(const Visit& visit) const;
  /// Makes visit_unread() report `path` although it was looked up, because its value has no effect.
  void mark_unread(std::string path, const Json& value) const;

 private:
  struct Reading;
  struct ReadObject;

  void sort_names();
  void remember();

  const Json& object_;
  const std::string path_;
  std::vector<const Json::Member*> by_name_;  // empty for small objects, which are scanned
  std::shared_ptr<Reading> reading_;          // shared by the whole body; null: lookups are not recorded
  ReadObject* read_ = nullptr;                // this object's record in reading_
};

/// Collects the paths that readers look up on this thread during its lifetime, for tests of the
/// documentation.
class LookupRecorder {
 public:
  LookupRecorder();
  ~LookupRecorder();
  LookupRecorder(const LookupRecorder&) = delete;
  LookupRecorder& operator=(const LookupRecorder&) = delete;

  std::set<std::string> paths;  // e.g. "stream_options.include_usage", "tools[].name"
};

/// Returns e.g. "messages[2]" for "messages" and 2.
std::string item_of(const std::string& path, std::size_t index);

/// Throws e.g. "temperature: must be a number, not a string".
[[noreturn]] void refuse_kind(const std::string& field, std::string_view wanted, const Json& got);

/// Returns the text in quotes, truncated if long.
std::string in_quotes(std::string_view text);

/// Formats a number as clients write it: 2, not 2.000000.
std::string show_number(double value);

/// Parses a list of token ids; `path` names it in errors.
TokenList read_token_list(const Json::Array& items, const std::string& path, const BodyLimits& limits);

// -- the query of a request's target: "action=save&cache_salt=a%20b"

/// Decodes %xx; leaves malformed sequences unchanged.
std::string percent_decoded(std::string_view text);

/// Returns the decoded value ('+' is a space) of the first parameter of that name, or nullopt.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

}  // namespace reprise::protocol
