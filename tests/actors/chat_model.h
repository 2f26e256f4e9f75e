#pragma once
// A small hybrid with random weights, a tokenizer and a chat template that behaves as Qwen3.5's: ChatML,
// thinking kept since the last user message and stripped before it, tool calls and their results.

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/source_folder.h"
#include "tests/temp_dir.h"
#include "tools/lab/random_model/write.h"

namespace reprise::actors {

inline constexpr const char* kChatTemplate = R"({%- set ns = namespace(last_user=-1) -%}
{%- for message in messages -%}
  {%- if message.role == 'user' -%}{%- set ns.last_user = loop.index0 -%}{%- endif -%}
{%- endfor -%}
{%- if tools -%}
  {{- '<|im_start|>system\n' -}}
  {%- if messages[0].role == 'system' -%}{{- messages[0].content + '\n\n' -}}{%- endif -%}
  {{- '# Tools\n' -}}
  {%- for tool in tools -%}{{- tool | tojson + '\n' -}}{%- endfor -%}
  {{- '<|im_end|>\n' -}}
{%- elif messages[0].role == 'system' -%}
  {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' -}}
{%- endif -%}
{%- for message in messages -%}
  {%- if message.role == 'user' -%}
    {{- '<|im_start|>user\n' + message.content + '<|im_end|>\n' -}}
  {%- elif message.role == 'assistant' -%}
    {{- '<|im_start|>assistant\n' -}}
    {%- if loop.index0 > ns.last_user -%}
      {{- '<think>\n' + (message.reasoning_content or '') + '\n</think>\n\n' -}}
    {%- endif -%}
    {{- message.content or '' -}}
    {%- for call in message.tool_calls or [] -%}
      {{- '<tool_call>\n{"name": ' + call.function.name | tojson + ', "arguments": ' + call.function.arguments | tojson + '}\n</tool_call>' -}}
    {%- endfor -%}
    {{- '<|im_end|>\n' -}}
  {%- elif message.role == 'tool' -%}
    {{- '<|im_start|>tool\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\n' -}}
  {%- if enable_thinking is defined and enable_thinking is false -%}
    {{- '<think>\n\n</think>\n\n' -}}
  {%- else -%}
    {{- '<think>\n' -}}
  {%- endif -%}
{%- endif -%}
)";

class ChatModelFolder {
 public:
  /// `type` is qwen3_5_text, qwen3 or llama.
  explicit ChatModelFolder(const std::string& type = "qwen3_5_text") : path_(dir_.path() / type) {
    tools::RandomShape shape{.type = type,
                             .layers = 4,
                             .hidden = 64,
                             .intermediate = 128,
                             .heads = 4,
                             .kv_heads = 2,
                             .head_dim = 16,
                             .vocab = 4096,
                             .tied = true,
                             .attention_interval = 4,
                             .key_heads = 2,
                             .value_heads = 4,
                             .key_head_dim = 16,
                             .value_head_dim = 16,
                             .conv_kernel = 4,
                             .context = 16384};
    tools::write_random_model(shape, 5, path_);
    std::filesystem::copy(source_folder() / "tests/data/tokenizer/tokenizer.json", path_ / "tokenizer.json");
    std::ofstream(path_ / "chat_template.jinja") << kChatTemplate;
    std::ofstream(path_ / "tokenizer_config.json") << R"({"eos_token": "<|im_end|>"})";
    std::ofstream(path_ / "generation_config.json") << R"({"eos_token_id": [4086]})";
  }
  std::string path() const { return path_; }

 private:
  const test::TempDir dir_;
  const std::filesystem::path path_;
};

}  // namespace reprise::actors
