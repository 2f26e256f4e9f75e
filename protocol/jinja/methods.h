#pragma once
// The methods of strings, lists and dicts that templates may call: those of Python that change nothing.
//
// Threading: immutable tables; the methods themselves work on values of one rendering.

#include <string_view>

#include "protocol/jinja/arguments.h"
#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

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

}  // namespace reprise::protocol::jinja
