#pragma once
// Builtins of templates: global functions, methods, filters and tests, and access to their arguments.
//
// Methods: those of Python's strings, lists and dicts that do not modify them. Filters: Jinja's, except those
// for HTML or wrapping (urlize, striptags, xmlattr, wordwrap), random and pprint; tojson does not escape
// HTML, as chat templates expect. Tests: all of Jinja's.

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Maps a call's arguments to the function's parameters. The constructor fails for surplus, unknown and
/// repeated arguments. Missing arguments are null.
class Parameters {
 public:
  Parameters(std::string_view function, const Arguments& arguments, std::initializer_list<const char*> names);

  const Value* find(std::size_t i) const { return values_[i]; }
  const Value& need(std::size_t i) const;  // fails if the argument is missing

  // Return `fallback` for a missing argument. Fail for another type.
  std::int64_t integer(std::size_t i, std::int64_t fallback) const;
  bool truth(std::size_t i, bool fallback) const;
  /// None counts as missing.
  std::string_view text(std::size_t i, std::string_view fallback) const;
  const std::string& need_text(std::size_t i) const;

 private:
  std::string function_;
  std::vector<const char*> names_;
  std::vector<const Value*> values_;
};

/// Returns a global function: Jinja's range, dict, namespace, cycler and joiner, or transformers'
/// raise_exception and strftime_now.
std::optional<Value> find_global(std::string_view name);

using Method = Value (*)(Workspace& workspace, const Value& self, const Arguments& arguments);

/// Return null if there is no such method.
Method find_string_method(std::string_view name);
Method find_list_method(std::string_view name);  // for lists, tuples and ranges
Method find_dict_method(std::string_view name);

/// Return whether Python has a method of this name that the sandbox forbids because it modifies the value.
bool changes_list(std::string_view name);
bool changes_dict(std::string_view name);

enum class Side : unsigned char { kLeft = 1, kRight = 2, kBoth = 3 };
/// Removes `chars` at the selected ends; null: whitespace.
std::string_view strip(std::string_view text, const std::string* chars, Side side);
std::string replace_all(Workspace& workspace, std::string_view text, std::string_view from,
                        std::string_view to, std::int64_t count);
std::string capitalize(std::string_view text);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

// {{ value | name(arguments) }}
using Filter = Value (*)(Workspace& workspace, const Value& input, const Arguments& arguments);

struct NamedFilter {
  std::string_view name;
  Filter filter;
};

/// Returns null if there is no such filter.
Filter find_filter(std::string_view name);

// the filters for text and numbers, which find_filter() includes
std::span<const NamedFilter> text_filters();

// {% if value is name(arguments) %}
using IsTest = bool (*)(Workspace& workspace, const Value& input, const Arguments& arguments);

/// Returns null if there is no such test.
IsTest find_is_test(std::string_view name);

}  // namespace reprise::protocol::jinja
