#include "protocol/openai/codex_models.h"

#include "protocol/chat/call_constraint.h"

namespace reprise::protocol::openai {
namespace {

// Codex gives these to the model in the place of its own, which are written for other models.
constexpr const char* kInstructions =
    "You are a coding agent in a terminal, working in the user's folder. Read the files that matter before "
    "you change "
    "them. Make the changes with the tools that you have, keep them small and in the style of the code "
    "around them, and "
    "run what checks there are. Go on until the task is done, and then say in a few words what you did. "
    "Never undo work "
    "of the user's that you were not asked to touch. If something cannot be done, say so and why.";
constexpr std::int64_t kToolOutputTokens = 10'000;  // of a tool's output, before it is cut

/// Patches come as a custom tool with a grammar, where the model's form of calls can be held to one.
Json patch_tool(const ModelCard& card) {
  const bool held = card.chat != nullptr && free_calls(card.chat->reply_format(), Json::array()).has_value();
  return held ? Json("freeform") : Json();
}

}  // namespace

Json describe_for_codex(const ModelCard& card) {
  return Json{{"id", card.id},
              {"name", card.id},
              {"model", card.id},
              {"slug", card.id},
              {"display_name", card.id},
              {"description", card.architecture},
              {"supported_reasoning_levels", Json::array()},
              {"shell_type", "shell_command"},
              {"visibility", card.chat != nullptr ? "list" : "hide"},
              {"supported_in_api", true},
              {"priority", 0},
              {"upgrade", nullptr},
              {"base_instructions", kInstructions},
              {"model_messages", Json{{"instructions_template", kInstructions}}},
              {"supports_reasoning_summaries", false},
              {"support_verbosity", false},
              {"default_verbosity", nullptr},
              {"apply_patch_tool_type", patch_tool(card)},
              {"truncation_policy", Json{{"mode", "tokens"}, {"limit", kToolOutputTokens}}},
              {"supports_parallel_tool_calls", true},
              {"context_window", card.context},
              {"experimental_supported_tools", Json::array()},
              {"input_modalities", Json(Json::Array{Json("text")})}};
}

}  // namespace reprise::protocol::openai
