#pragma once
// The filters: {{ value | name(arguments) }}.
//
// All of Jinja's are here except those that make HTML or wrap text (urlize, striptags, xmlattr, wordwrap),
// random and pprint. tojson is the one that chat templates are written for: it escapes nothing for HTML.
//
// Threading: immutable tables; the filters themselves work on values of one rendering.

#include <span>
#include <string_view>

#include "protocol/jinja/arguments.h"
#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

using Filter = Value (*)(Workspace& workspace, const Value& input, const Arguments& arguments);

struct NamedFilter {
  std::string_view name;
  Filter filter;
};

/// Null where there is no such filter.
Filter find_filter(std::string_view name);

// The tables, one a file.
std::span<const NamedFilter> text_filters();
std::span<const NamedFilter> number_filters();
std::span<const NamedFilter> sequence_filters();
std::span<const NamedFilter> order_filters();
std::span<const NamedFilter> selection_filters();

}  // namespace reprise::protocol::jinja
