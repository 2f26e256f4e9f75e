#pragma once
// Reading what a client sent: the members of a body's JSON, with errors that name the member, and those of a query.
//
// A member that is null counts as one that is not there, as clients expect. Everything here throws
// BadRequest. What a client wrote is quoted in part only, so that no error is longer than a few lines.
//
// A body remembers which of its members were looked up, in all its objects that are read through it. The members that
// are left over when everything has been read mean nothing to the API: field_rules.h says what becomes of them.
//
// Names of many members are sorted once, so that looking for all the names we know takes no longer than
// reading the object did.
//
// Threading: Fields reads a value that must outlive it; a body's Fields belong to one thread.

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

/// Whether token ids, of which there may be many, come on top of a body's other values.
enum class BodyHolds : std::uint8_t { kText, kTokenIds };

/// Parses a body that must be an object.
Json parse_body(std::string_view body, const BodyLimits& limits, BodyHolds holds);

class Fields {
 public:
  /// A body, which remembers what is looked up.
  explicit Fields(const Json& body);
  /// An object within `body` whose lookups are remembered with the body's. `path` precedes its names in messages.
  Fields(const Json& object, std::string path, const Fields& body);
  /// An object that may have any members besides those that are looked up: a message, a part of its content.
  Fields(const Json& object, std::string path);

  const Json& whole() const { return object_; }
  std::string path_of(std::string_view name) const;
  /// Null where there is none.
  const Json* find(std::string_view name) const;

  std::optional<bool> boolean(std::string_view name) const;
  bool boolean_or(std::string_view name, bool otherwise) const { return boolean(name).value_or(otherwise); }
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t least, std::int64_t most) const;
  std::optional<double> number(std::string_view name, double least, double most) const;
  const std::string* string(std::string_view name, std::size_t most_bytes) const;
  const Json::Array* array(std::string_view name) const;
  const Json* object(std::string_view name) const;
  /// The members of the object of that name; nothing where there is none.
  std::optional<Fields> within(std::string_view name) const;

  using Visit = std::function<void(const std::string& path, const Json& value)>;
  /// Calls `visit` for each member of the body, and of objects within it that were read, which is not null and was not
  /// looked up. An index in a path is left out: "tools[].name".
  void visit_unread(const Visit& visit) const;
  /// Has visit_unread() report `path` although it was looked up: its value has no effect.
  void mark_unread(std::string path, const Json& value) const;

 private:
  struct Reading;
  struct ReadObject;

  void sort_names();
  void remember();

  const Json& object_;
  const std::string path_;
  std::vector<const Json::Member*> by_name_;  // empty where a scan of the members does
  std::shared_ptr<Reading> reading_;          // of the whole body; null: lookups are not remembered
  ReadObject* read_ = nullptr;                // of this object, within reading_
};

/// Collects the paths that bodies' readers look up on this thread while it lives, for tests of documentation.
class LookupRecorder {
 public:
  LookupRecorder();
  ~LookupRecorder();
  LookupRecorder(const LookupRecorder&) = delete;
  LookupRecorder& operator=(const LookupRecorder&) = delete;

  std::set<std::string> paths;  // "stream_options.include_usage", "tools[].name"
};

/// "messages" and 2 give "messages[2]".
std::string item_of(const std::string& path, std::size_t index);

/// "temperature: must be a number, not a string".
[[noreturn]] void refuse_kind(const std::string& field, std::string_view wanted, const Json& got);

/// 'text' in quotes, cut where it is long.
std::string in_quotes(std::string_view text);

/// The number as a client would write it: 2, not 2.000000.
std::string show_number(double value);

/// A list of token ids; `path` names it in errors.
TokenList read_token_list(const Json::Array& items, const std::string& path, const BodyLimits& limits);

// -- the query of a request's target: "action=save&cache_salt=a%20b"

/// With %xx decoded; what is no such thing stays as it is.
std::string percent_decoded(std::string_view text);

/// The value of the first member of that name, decoded ('+' is a space); nothing if there is none.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

}  // namespace reprise::protocol
