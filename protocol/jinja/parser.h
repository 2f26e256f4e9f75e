#pragma once
// From source to Program: the grammar of Jinja with transformers' extensions, break, continue and generation.
//
// Recursion is bounded by kMaxNesting, the depth of expressions by kMaxExpressionDepth.
// Threading: pure function.

#include <memory>
#include <string_view>

#include "protocol/jinja/ast.h"

namespace reprise::protocol::jinja {

/// Throws a Failure of kind kSyntax with the line.
std::shared_ptr<const Program> parse_template(std::string_view source);

}  // namespace reprise::protocol::jinja
