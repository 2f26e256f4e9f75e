#pragma once
// Reading the members of a JSON object that a client sent, with errors that name the member.
//
// A member that is null counts as one that is not there, as clients expect. Everything here throws
// BadRequest. What a client wrote is quoted in part only, so that no error is longer than a few lines.
//
// Names of many members are sorted once, so that looking for all the names we know takes no longer than
// reading the object did.
//
// Threading: reads a value that must outlive it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace reprise::protocol {

class Fields {
 public:
  /// `path` stands before the names in messages: "messages[2]"; empty at the top.
  explicit Fields(const Json& object, std::string path = {});

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

 private:
  const Json& object_;
  const std::string path_;
  std::vector<const Json::Member*> by_name_;  // empty where a scan of the members does
};

/// "messages" and 2 give "messages[2]".
std::string item_of(const std::string& path, std::size_t index);

/// "temperature: must be a number, not a string".
[[noreturn]] void refuse_kind(const std::string& field, std::string_view wanted, const Json& got);

/// 'text' in quotes, cut where it is long.
std::string in_quotes(std::string_view text);

/// The number as a client would write it: 2, not 2.000000.
std::string show_number(double value);

}  // namespace reprise::protocol
