#pragma once
// Macros, and the callers of call blocks: pieces of template that are called like functions.
//
// Threading: one rendering.

#include <functional>
#include <memory>
#include <string>

#include "protocol/jinja/arguments.h"
#include "protocol/jinja/ast.h"
#include "protocol/jinja/scope.h"
#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

class Interpreter;

class Macro final : public Object {
 public:
  Macro(Interpreter& interpreter, const MacroDefinition& definition, std::shared_ptr<Scope> closure)
      : interpreter_(interpreter), definition_(definition), closure_(std::move(closure)) {}

  std::string type_name() const override { return "Macro"; }
  std::string repr(Workspace& workspace) const override;
  std::optional<Value> attribute(Workspace& workspace, std::string_view name) override;
  bool is_callable() const override { return true; }
  Value call(Workspace& workspace, const Arguments& arguments) override;
  void clear() override { closure_.reset(); }

 private:
  Interpreter& interpreter_;
  const MacroDefinition& definition_;
  std::shared_ptr<Scope> closure_;
};

/// Sets the parameters of a macro in the scope of its call, defaults evaluated there one after the other.
/// Fails for arguments that it does not take.
void bind_arguments(Workspace& workspace, const Program& program, const MacroDefinition& macro,
                    const Arguments& arguments, Scope& scope,
                    const std::function<Value(const Expression&)>& evaluate);

}  // namespace reprise::protocol::jinja
