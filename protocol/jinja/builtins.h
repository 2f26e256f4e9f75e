#pragma once
// What a template can call by name: global functions, methods, filters and tests, and how these read their
// arguments.
//
// Methods are those of Python's strings, lists and dicts that change nothing. Of Jinja's filters all are here
// except those that make HTML or wrap text (urlize, striptags, xmlattr, wordwrap), random and pprint; tojson
// escapes nothing for HTML, as chat templates expect. All of Jinja's tests are here.
//
// Threading: immutable tables; the functions hold no state and work on values of one rendering.

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

/// The arguments of a function by its parameters. Fails on construction for too many, unknown and doubled
/// ones; what was not given reads as null.
class Parameters {
 public:
  Parameters(std::string_view function, const Arguments& arguments, std::initializer_list<const char*> names);

  const Value* find(std::size_t i) const { return values_[i]; }
  const Value& need(std::size_t i) const;  // fails when it was not given

  // With a value for when it was not given. Fail for another type.
  std::int64_t integer(std::size_t i, std::int64_t fallback) const;
  bool truth(std::size_t i, bool fallback) const;
  /// None counts as not given.
  std::string_view text(std::size_t i, std::string_view fallback) const;
  const std::string& need_text(std::size_t i) const;

 private:
  std::string function_;
  std::vector<const char*> names_;
  std::vector<const Value*> values_;
};

/// A function that every template can call: range, dict, namespace, cycler and joiner of Jinja, raise_exception
/// and strftime_now of transformers.
std::optional<Value> find_global(std::string_view name);

using Method = Value (*)(Workspace& workspace, const Value& self, const Arguments& arguments);

/// Null where there is no such method.
Method find_string_method(std::string_view name);
Method find_list_method(std::string_view name);  // of lists, tuples and ranges
Method find_dict_method(std::string_view name);

/// Methods that Python has and the sandbox forbids, because they change the value.
bool changes_list(std::string_view name);
bool changes_dict(std::string_view name);

// What methods and filters share.
enum class Side : unsigned char { kLeft = 1, kRight = 2, kBoth = 3 };
/// Without the characters of `chars` at its ends; null for white space.
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

/// Null where there is no such filter.
Filter find_filter(std::string_view name);

std::span<const NamedFilter> text_filters();  // of text and numbers; a part of what find_filter finds

// {% if value is name(arguments) %}
using IsTest = bool (*)(Workspace& workspace, const Value& input, const Arguments& arguments);

/// Null where there is no such test.
IsTest find_is_test(std::string_view name);

}  // namespace reprise::protocol::jinja
