#pragma once
// Chat templates: Jinja as Hugging Face's transformers render it.
//
// A Template is compiled once and rendered as often as there are prompts. What it renders and the template
// itself may come from outside: rendering is bounded in time, memory, depth and output (RenderLimits), reaches
// nothing but its context, and changes nothing. Settings and extensions are those of transformers:
// trim_blocks, lstrip_blocks, break and continue, the generation tag, tojson without HTML escapes,
// raise_exception, strftime_now, and the immutable sandbox, in which lists and dicts cannot be changed.
//
// Beside Jinja: integers have 64 bits, and a result beyond them is an error; include, import and extends are
// errors when they are reached.
//
// Threading: immutable; any number of threads may render one Template at the same time.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/outcome.h"
#include "protocol/jinja/error.h"

namespace reprise::protocol::jinja {

struct Program;

struct RenderOptions {
  std::optional<std::chrono::system_clock::time_point> now{};  // for strftime_now; unset: the clock
  RenderLimits limits{};
};

class Template {
 public:
  static Outcome<Template, TemplateError> compile(std::string_view source);

  /// `context` holds the variables: messages, tools, add_generation_prompt, bos_token… It must be an object.
  Outcome<std::string, TemplateError> render(const Json& context, const RenderOptions& options = {}) const;

 private:
  explicit Template(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

  std::shared_ptr<const Program> program_;
};

}  // namespace reprise::protocol::jinja
