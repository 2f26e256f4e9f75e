#include "protocol/chat/named_templates.h"

#include <array>

namespace reprise::protocol {
namespace {

struct NamedTemplate {
  std::string_view name;
  std::string_view source;
};

// For formats without system messages: the macro `text` prepends the system text to the first user message.
constexpr std::string_view kSystemFirst =
    "{%- set ns = namespace(system='') -%}"
    "{%- macro text(message) -%}"
    "{{ (ns.system + '\\n\\n' if ns.system else '') + (message.content or '') | trim }}"
    "{%- set ns.system = '' -%}"
    "{%- endmacro -%}";

constexpr std::array kTemplates = {
    NamedTemplate{"chatml",
                  "{%- for message in messages -%}"
                  "{{ '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' }}"
                  "{%- endfor -%}"
                  "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"},
    NamedTemplate{"command-r",
                  "{%- for message in messages -%}"
                  "{%- set mark = '<|SYSTEM_TOKEN|>' if message.role == 'system' else '<|CHATBOT_TOKEN|>' if "
                  "message.role == 'assistant' else '<|USER_TOKEN|>' -%}"
                  "{{ '<|START_OF_TURN_TOKEN|>' + mark + (message.content or '') | trim + "
                  "'<|END_OF_TURN_TOKEN|>' }}"
                  "{%- endfor -%}"
                  "{%- if add_generation_prompt -%}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{%- endif "
                  "-%}"},
    NamedTemplate{"deepseek",
                  "{%- for message in messages -%}"
                  "{%- if message.role == 'system' -%}{{ message.content }}"
                  "{%- elif message.role == 'assistant' -%}"
                  "{{ '### Response:\\n' + (message.content or '') + '\\n<|EOT|>\\n' }}"
                  "{%- else -%}{{ '### Instruction:\\n' + (message.content or '') + '\\n' }}{%- endif -%}"
                  "{%- endfor -%}"
                  "{%- if add_generation_prompt -%}{{ '### Response:\\n' }}{%- endif -%}"},
    NamedTemplate{"deepseek2",
                  "{%- for message in messages -%}"
                  "{%- if message.role == 'system' -%}{{ message.content + '\\n\\n' }}"
                  "{%- elif message.role == 'assistant' -%}"
                  "{{ 'Assistant: ' + (message.content or '') + '<｜end▁of▁sentence｜>' }}"
                  "{%- else -%}{{ 'User: ' + (message.content or '') + '\\n\\n' }}{%- endif -%}"
                  "{%- endfor -%}"
                  "{%- if add_generation_prompt -%}{{ 'Assistant:' }}{%- endif -%}"},
    NamedTemplate{"deepseek3",
                  "{%- for message in messages -%}"
                  "{%- if message.role == 'system' -%}{{ message.content + '\\n\\n' }}"
                  "{%- elif message.role == 'assistant' -%}"
                  "{{ '<｜Assistant｜>' + (message.content or '') + '<｜end▁of▁sentence｜>' }}"
                  "{%- else -%}{{ '<｜User｜>' + (message.content or '') }}{%- endif -%}"
                  "{%- endfor -%}"
                  "{%- if add_generation_prompt -%}{{ '<｜Assistant｜>' }}{%- endif -%}"},
    NamedTemplate{"gemma",
                  "{%- for message in messages -%}"
                  "{%- if message.role == 'system' -%}{%- set ns.system = message.content -%}"
                  "{%- elif message.role == 'assistant' -%}"
                  "{{ '<start_of_turn>model\\n' + (message.content or '') | trim + '<end_of_turn>\\n' }}"
                  "{%- else -%}{{ '<start_of_turn>user\\n' + text(message) + '<end_of_turn>\\n' }}{%- endif "
                  "-%}"
                  "{%- endfor -%}"
                  "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}"},
    NamedTemplate{
        "granite",
        "{%- for message in messages -%}"
        "{{ '<|start_of_role|>' + message.role + '<|end_of_role|>' + (message.content or '') + "
        "'<|end_of_text|>\\n' }}"
        "{%- endfor -%}"
        "{%- if add_generation_prompt -%}{{ '<|start_of_role|>assistant<|end_of_role|>' }}{%- endif "
        "-%}"},
    NamedTemplate{
        "llama2",
        "{%- for message in messages -%}"
        "{%- if message.role == 'system' -%}"
        "{%- set ns.system = '<<SYS>>\\n' + message.content + '\\n<</SYS>>' -%}"
        "{%- elif message.role == 'assistant' -%}{{ ' ' + (message.content or '') | trim + ' </s>' }}"
        "{%- else -%}{{ '[INST] ' + text(message) + ' [/INST]' }}{%- endif -%}"
        "{%- endfor -%}"},
    NamedTemplate{"llama3",
                  "{%- for message in messages -%}"
                  "{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + (message.content or "
                  "'') | trim + '<|eot_id|>' }}"
                  "{%- endfor -%}"
                  "{%- if add_generation_prompt -%}"
                  "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif -%}"},
    NamedTemplate{
        "mistral-v1",
        "{%- for message in messages -%}"
        "{%- if message.role == 'system' -%}{%- set ns.system = message.content -%}"
        "{%- elif message.role == 'assistant' -%}{{ ' ' + (message.content or '') | trim + '</s>' }}"
        "{%- else -%}{{ ' [INST] ' + text(message) + ' [/INST]' }}{%- endif -%}"
        "{%- endfor -%}"},
    NamedTemplate{
        "mistral-v3",
        "{%- for message in messages -%}"
        "{%- if message.role == 'system' -%}{%- set ns.system = message.content -%}"
        "{%- elif message.role == 'assistant' -%}{{ ' ' + (message.content or '') | trim + '</s>' }}"
        "{%- else -%}{{ '[INST] ' + text(message) + '[/INST]' }}{%- endif -%}"
        "{%- endfor -%}"},
    NamedTemplate{"mistral-v7",
                  "{%- for message in messages -%}"
                  "{%- if message.role == 'system' -%}"
                  "{{ '[SYSTEM_PROMPT] ' + message.content + '[/SYSTEM_PROMPT]' }}"
                  "{%- elif message.role == 'assistant' -%}{{ ' ' + (message.content or '') + '</s>' }}"
                  "{%- else -%}{{ '[INST] ' + (message.content or '') + '[/INST]' }}{%- endif -%}"
                  "{%- endfor -%}"},
    NamedTemplate{"phi3",
                  "{%- for message in messages -%}"
                  "{{ '<|' + message.role + '|>\\n' + (message.content or '') + '<|end|>\\n' }}"
                  "{%- endfor -%}"
                  "{%- if add_generation_prompt -%}{{ '<|assistant|>\\n' }}{%- endif -%}"},
    NamedTemplate{
        "phi4",
        "{%- for message in messages -%}"
        "{{ '<|im_start|>' + message.role + '<|im_sep|>' + (message.content or '') + '<|im_end|>' }}"
        "{%- endfor -%}"
        "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant<|im_sep|>' }}{%- endif -%}"},
    NamedTemplate{"vicuna",
                  "{%- for message in messages -%}"
                  "{%- if message.role == 'system' -%}{{ message.content + '\\n\\n' }}"
                  "{%- elif message.role == 'assistant' -%}"
                  "{{ 'ASSISTANT: ' + (message.content or '') + '</s>\\n' }}"
                  "{%- else -%}{{ 'USER: ' + (message.content or '') + '\\n' }}{%- endif -%}"
                  "{%- endfor -%}"
                  "{%- if add_generation_prompt -%}{{ 'ASSISTANT:' }}{%- endif -%}"},
    NamedTemplate{"zephyr",
                  "{%- for message in messages -%}"
                  "{{ '<|' + message.role + '|>\\n' + (message.content or '') + eos_token + '\\n' }}"
                  "{%- endfor -%}"
                  "{%- if add_generation_prompt -%}{{ '<|assistant|>\\n' }}{%- endif -%}"},
};

}  // namespace

std::optional<std::string> named_template(std::string_view name) {
  for (const NamedTemplate& known : kTemplates) {
    if (known.name != name) continue;
    const bool moves_system = known.source.find("ns.system") != std::string_view::npos;
    return (moves_system ? std::string(kSystemFirst) : std::string()) + std::string(known.source);
  }
  return std::nullopt;
}

std::string template_names() {
  std::string names;
  for (const NamedTemplate& known : kTemplates) {
    if (!names.empty()) names += ", ";
    names += known.name;
  }
  return names;
}

}  // namespace reprise::protocol
