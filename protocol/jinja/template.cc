#include "protocol/jinja/template.h"

#include "protocol/jinja/ast.h"
#include "protocol/jinja/interpreter.h"
#include "protocol/jinja/parser.h"

namespace reprise::protocol::jinja {

Outcome<Template, TemplateError> Template::compile(std::string_view source) {
  try {
    return Template(parse_template(source));
  } catch (const Failure& failure) {
    return failure.error();
  }
}

Outcome<std::string, TemplateError> Template::render(const Json& context,
                                                     const RenderOptions& options) const {
  if (!context.is_object()) {
    return TemplateError{
        TemplateError::Kind::kRuntime, 0,
        std::string("the context of a template must be an object, not ") + context.kind_name()};
  }
  const auto now = options.now.value_or(std::chrono::system_clock::now());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
  Workspace workspace(options.limits, seconds);
  Interpreter interpreter(workspace, *program_, context);
  try {
    return interpreter.run();
  } catch (const Failure& failure) {
    TemplateError error = failure.error();
    if (error.line == 0) error.line = interpreter.line();
    return error;
  }
}

}  // namespace reprise::protocol::jinja
