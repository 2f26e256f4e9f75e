#include "protocol/jinja/macro.h"

#include <algorithm>

#include "protocol/jinja/error.h"
#include "protocol/jinja/interpreter.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {

std::string Macro::repr(Workspace&) const {
  return "<Macro " + string_repr(definition_.name) + ">";
}

std::optional<Value> Macro::attribute(Workspace& workspace, std::string_view name) {
  if (name == "name") return workspace.text(definition_.name);
  if (name == "catch_kwargs") return Value(definition_.takes_kwargs);
  if (name == "catch_varargs") return Value(definition_.takes_varargs);
  if (name == "caller") return Value(definition_.takes_caller);
  if (name != "arguments") return std::nullopt;
  std::vector<Value> names;
  for (const std::string& parameter : definition_.parameter_names) names.push_back(workspace.text(parameter));
  return workspace.tuple(std::move(names));
}

Value Macro::call(Workspace&, const Arguments& arguments) {
  return interpreter_.call_macro(definition_, closure_, arguments);
}

void bind_arguments(Workspace& workspace, const Program& program, const MacroDefinition& macro,
                    const Arguments& arguments, Scope& scope,
                    const std::function<Value(const Expression&)>& evaluate) {
  const std::size_t count = macro.parameters.size();
  const std::size_t given = std::min(arguments.positional.size(), count);
  std::vector<bool> used(arguments.named.size(), false);
  const auto take_named = [&](std::string_view name) -> const Value* {
    for (std::size_t i = 0; i < arguments.named.size(); ++i) {
      if (arguments.named[i].first != name || used[i]) continue;
      used[i] = true;
      return &arguments.named[i].second;
    }
    return nullptr;
  };

  for (std::size_t i = 0; i < count; ++i) {
    const Value* value = i < given ? &arguments.positional[i] : take_named(macro.parameter_names[i]);
    if (value != nullptr) {
      scope.set(macro.parameters[i], *value);
    } else if (const std::size_t required = count - macro.defaults.size(); i >= required) {
      scope.set(macro.parameters[i], evaluate(*macro.defaults[i - required]));
    } else {
      scope.set(
          macro.parameters[i],
          Value::undefined(cat({"parameter '", shown_part(macro.parameter_names[i]), "' was not provided"})));
    }
  }

  const bool has_caller_parameter = std::find(macro.parameter_names.begin(), macro.parameter_names.end(),
                                              "caller") != macro.parameter_names.end();
  if (macro.takes_caller && !has_caller_parameter) {
    const Value* caller = take_named("caller");
    scope.set(program.caller, caller != nullptr ? *caller : Value::undefined("No caller defined"));
  }
  if (macro.takes_kwargs) {
    auto rest = std::make_shared<Dict>();
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) rest->set(workspace.text(arguments.named[i].first), arguments.named[i].second);
    }
    scope.set(program.kwargs, workspace.dict(std::move(rest)));
  } else if (const auto extra = std::find(used.begin(), used.end(), false); extra != used.end()) {
    const std::string& name = arguments.named[static_cast<std::size_t>(extra - used.begin())].first;
    fail({"macro '", macro.name, "' takes no keyword argument '", name, "'"});
  }
  if (macro.takes_varargs) {
    scope.set(program.varargs,
              workspace.tuple({arguments.positional.begin() + static_cast<std::ptrdiff_t>(given),
                               arguments.positional.end()}));
  } else if (arguments.positional.size() > count) {
    fail({"macro '", macro.name, "' takes not more than ", std::to_string(count), " argument(s)"});
  }
}

}  // namespace reprise::protocol::jinja
