#include "tests/protocol/reply_samples.h"

namespace reprise::protocol::test {

const std::vector<Sample>& samples() {
  static const std::vector<Sample> all = {
      // Text and reasoning.
      {kPlain, "", "<think>\n<tool_call>{\n", "content \"<think>\\n<tool_call>{\\n\"\n"},
      {kHermes, "", "Hello\n\nthere <b>", "content \"Hello\\n\\nthere <b>\"\n"},
      {kHermes, "", "  indented\n", "content \"  indented\\n\"\n"},
      {kHermes, "", "<think>\nI see.\n\nSo.\n</think>\n\nYes.\n",
       "reasoning \"I see.\\n\\nSo.\"\ncontent \"Yes.\\n\"\n"},
      {kHermes, "", "\n <think>a</think>  b", "reasoning \"a\"\ncontent \"  b\"\n"},
      {kHermes, "<think>\n", "Short.\n</think>\n\n  Indented.",
       "reasoning \"Short.\"\ncontent \"  Indented.\"\n"},
      {kHermes, "<think>\n\n</think>\n\n", "Plain </think> text", "content \"Plain </think> text\"\n"},
      {kHermes, "user said <think>\nassistant:", "Hello", "content \"Hello\"\n"},
      {kHermes, "<think>\n", "cut of", "reasoning \"cut of\"\n"},
      {kHermes, "<think>\n", "a </thin", "reasoning \"a </thin\"\n"},
      {kHermes, "<think>", "mentions <tool_call>\n{\"name\": \"now\"}</think>ok",
       "reasoning \"mentions <tool_call>\\n{\\\"name\\\": \\\"now\\\"}\"\ncontent \"ok\"\n"},
      // A call inside reasoning counts if nothing follows the reasoning.
      {kHermes, "<think>\n",
       "I look.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {\"a\": 1}}\n</tool_call>",
       "reasoning \"I look.\"\ncall 0 now #call_r1_0\narguments {\"a\": 1}\nend 0\n"},
      {kHermes, "", "<think>\nSo <tool_call>{\"name\": \"now\"}</tool_call>\n</think>\n\n",
       "reasoning \"So \"\ncall 0 now #call_r1_0\narguments {}\nend 0\n"},
      {kHermes, "<think>\n",
       "a<tool_call>{\"name\": \"now\"}</tool_call> b <tool_call>{\"name\": \"weather\", \"arguments\": "
       "{}}</tool_call>\nc",
       "reasoning \"a\"\ncall 0 now #call_r1_0\narguments {}\nend 0\nreasoning \" b \"\n"
       "call 1 weather #call_r1_1\narguments {}\nend 1\nreasoning \"c\"\n"},
      {kHermes, "<think>\n",
       "Maybe <tool_call>{\"name\": \"now\"}</tool_call>.\n</think>\n\n<tool_call>{\"name\": "
       "\"weather\"}</tool_call>",
       "reasoning \"Maybe <tool_call>{\\\"name\\\": \\\"now\\\"}</tool_call>.\"\n"
       "call 0 weather #call_r1_0\narguments {}\nend 0\n"},
      {kHermes, "<think>\n", "the mark <tool_call> is", "reasoning \"the mark <tool_call> is\"\n"},
      {kXml, "<think>\n",
       "Now.\n\n<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</"
       "tool_call>",
       "reasoning \"Now.\"\ncall 0 weather #call_r1_0\narguments {\"city\": \"Oslo\"}\nend 0\n"},
      {kHermes, "", "say <think> and </think>", "content \"say <think> and </think>\"\n"},
      {kHermes, "", "<think>\n\n</think>\n\n<think>b</think>c", "reasoning \"b\"\ncontent \"c\"\n"},
      {kSeed, "", "<seed:think>héllo 😀</seed:think>\nwörld", "reasoning \"héllo 😀\"\ncontent \"wörld\"\n"},
      {kMistral, "", "[THINK]a [b] c[/THINK]d [TOOL", "reasoning \"a [b] c\"\ncontent \"d [TOOL\"\n"},

      // JSON calls between tags.
      {kHermes, "",
       "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": [1, "
       "{}]}}\n</tool_call>",
       "call 0 weather #call_r1_0\narguments {\"city\": \"Oslo\", \"days\": [1, {}]}\nend 0\n"},
      {kHermes, "<think>\n",
       "Need it.\n</think>\n\nLet me look.\n\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": "
       "\"</tool_call> \\\" 東京\"}}\n"
       "</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\nDone.",
       "reasoning \"Need it.\"\ncontent \"Let me look.\"\ncall 0 weather #call_r1_0\n"
       "arguments {\"city\": \"</tool_call> \\\" 東京\"}\nend 0\n"
       "call 1 now #call_r1_1\narguments {}\nend 1\ncontent \"Done.\"\n"},
      {kHermes, "",
       "<tool_call>{\"arguments\": {\"days\": 2}, \"id\": [1, \"x\"], \"name\": \"weather\"}</tool_call>",
       "call 0 weather #call_r1_0\narguments {\"days\": 2}\nend 0\n"},
      {kHermes, "",
       "<tool_call>{\"type\": \"function\", \"function\": {\"name\": \"now\", \"arguments\": \"{\\\"a\\\": "
       "1}\"}}</tool_call>",
       "call 0 now #call_r1_0\narguments {\"a\": 1}\nend 0\n"},
      {kHermes, "",
       "<tool_call>{\"name\": \"now\"}</tool_call><tool_call>{\"name\": \"now\", \"arguments\": "
       "null}</tool_call>",
       "call 0 now #call_r1_0\narguments {}\nend 0\ncall 1 now #call_r1_1\narguments {}\nend 1\n"},
      {kHermes, "",
       "<tool_call>\n{\"name\": \"now\", \"arguments\": {\"a\": \"two\nlines\t\"}}}\n</tool_call>",
       "call 0 now #call_r1_0\narguments {\"a\": \"two\\nlines\\t\"}\nend 0\n"},
      {kHermes, "", "<tool_call>\n{\"name\": \"now\", \"arguments\": {\"a\": 1}\n</tool_call>ok",
       "call 0 now #call_r1_0\narguments {\"a\": 1}\nend 0\ncontent \"ok\"\n"},
      {kHermes, "", "<tool_call>[{\"name\": \"now\"},\n{\"name\": \"weather\"}]</tool_call>",
       "call 0 now #call_r1_0\narguments {}\nend 0\ncall 1 weather #call_r1_1\narguments {}\nend 1\n"},
      {kNemotron, "<think>\n",
       "</think><TOOLCALL>[{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"weather\", \"arguments\": "
       "{\"days\": 1}}]</TOOLCALL>\n",
       "call 0 now #call_r1_0\narguments {}\nend 0\ncall 1 weather #call_r1_1\narguments {\"days\": 1}\nend "
       "1\n"},
      {kJamba, "", " <tool_calls>[\n    {\"name\": \"now\", \"arguments\": {}}\n]</tool_calls>",
       "call 0 now #call_r1_0\narguments {}\nend 0\n"},
      {kGranite, "", "<|tool_call|>[{\"name\": \"now\", \"arguments\": {\"a\": -1.5e3}}]\nbye",
       "call 0 now #call_r1_0\narguments {\"a\": -1.5e3}\nend 0\ncontent \"bye\"\n"},
      {kMistralList, "", "Hm.[TOOL_CALLS] [{\"name\": \"now\", \"arguments\": {}, \"id\": \"abcdefghi\"}]",
       "content \"Hm.\"\ncall 0 now #HJBD9ADCy\narguments {}\nend 0\n"},

      // Bare JSON.
      {kLlama, "", "{\"name\": \"weather\", \"parameters\": {\"city\": \"Oslo\"}}",
       "call 0 weather #call_r1_0\narguments {\"city\": \"Oslo\"}\nend 0\n"},
      {kLlama, "",
       "\n<|python_tag|>{\"type\": \"function\", \"name\": \"now\", \"parameters\": {}}; {\"name\": \"now\"}",
       "call 0 now #call_r1_0\narguments {}\nend 0\ncall 1 now #call_r1_1\narguments {}\nend 1\n"},
      {kLlama, "", "{\"name\": \"Alice\", \"parameters\": {}}",
       "content \"{\\\"name\\\": \\\"Alice\\\", \\\"parameters\\\": {}}\"\n"},
      {kLlama, "", " {\"age\": 3}", "content \" {\\\"age\\\": 3}\"\n"},
      {kLlama, "", "see {\"name\": \"now\"}", "content \"see {\\\"name\\\": \\\"now\\\"}\"\n"},
      {kLlama, "", "<|python_tag|>search.call(query=\"x\")",
       "content \"<|python_tag|>search.call(query=\\\"x\\\")\"\n"},
      {kLlama, "", "{\"name\": \"now\", \"parameters\": <x>}",
       "call 0 now #call_r1_0\nend 0\ncontent \"<x>}\"\n"},

      // Tags.
      {kXml, "<think>\n",
       "\n</think>\n\nLook:\n\n<tool_call>\n<function=weather>\n<parameter=city>\nNew "
       "\"York\"\n\nC:\\dir\t\u00e9\n</parameter>\n"
       "<parameter=days>\n3\n</parameter>\n<parameter=exact>\nTrue\n</parameter>\n<parameter=note>\nnull\n</"
       "parameter>\n"
       "<parameter=where>\n42\n</parameter>\n<parameter=box>\n{\"a\": "
       "[1]}\n</parameter>\n<parameter=free>\nnot json\n"
       "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>\n",
       "content \"Look:\"\ncall 0 weather #call_r1_0\narguments {\"city\": \"New "
       "\\\"York\\\"\\n\\nC:\\\\dir\\té\", \"days\": 3, "
       "\"exact\": true, \"note\": null, \"where\": \"42\", \"box\": {\"a\": [1]}, \"free\": \"not "
       "json\"}\nend 0\n"
       "call 1 now #call_r1_1\narguments {}\nend 1\n"},
      {kXml, "",
       "<tool_call><function=weather><parameter=city>1</parameter><parameter=days></parameter></function></"
       "tool_call>x",
       "call 0 weather #call_r1_0\narguments {\"city\": \"1\", \"days\": \"\"}\nend 0\ncontent \"x\"\n"},
      {kXml, "",
       "<tool_call>\n<function=weather>\n<parameter=city>\n\n</function> <parameter=\n</param "
       "\n\n</parameter>\n</tool_call>",
       "call 0 weather #call_r1_0\narguments {\"city\": \"\\n</function> <parameter=\\n</param \\n\"}\nend "
       "0\n"},
      {kSeed, "",
       "<seed:tool_call>\n<function=now>\n<parameter=a>1</parameter>\n</function>\n<function=now>\n</"
       "function>\n</seed:tool_call>",
       "call 0 now #call_r1_0\narguments {\"a\": 1}\nend 0\ncall 1 now #call_r1_1\narguments {}\nend 1\n"},

      // Name, separator, arguments.
      {kKimi, "",
       "Ok.<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:3<|tool_call_argument_begin|>{"
       "\"city\": \"a\"}"
       "<|tool_call_end|>\n<|tool_call_begin|>now:4<|tool_call_argument_begin|> "
       "{}<|tool_call_end|><|tool_calls_section_end|>",
       "content \"Ok.\"\ncall 0 weather #functions.weather:3\narguments {\"city\": \"a\"}\nend 0\n"
       "call 1 now #now:4\narguments {}\nend 1\n"},
      {kDeepSeek, "<think>\n",
       "hm</"
       "think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{"
       "\"days\": 1}\n```<｜tool▁call▁end｜>\n"
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><"
       "｜tool▁calls▁end｜>",
       "reasoning \"hm\"\ncall 0 weather #call_r1_0\narguments {\"days\": 1}\nend 0\ncall 1 now "
       "#call_r1_1\narguments {}\nend 1\n"},
      {kDeepSeekPlain, "",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><"
       "｜tool▁calls▁end｜>",
       "call 0 now #call_r1_0\narguments {}\nend 0\n"},
      {kMistral, "",
       "[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]weather[CALL_ID]abc123XYZ[ARGS]{\"a\": "
       "\"[TOOL_CALLS]\"}[TOOL_CALLS]now{\"b\": 1}",
       "call 0 now #HJBD9ADCy\narguments {}\nend 0\ncall 1 weather #abc123XYZ\narguments {\"a\": "
       "\"[TOOL_CALLS]\"}\nend 1\n"
       "call 2 now #bdzg4mt1Q\narguments {\"b\": 1}\nend 2\n"},

      // Python.
      {kLfm, "",
       "<|tool_call_start|>[weather(city='O\\'s \"lo\"\\n', days=3, exact=True, note=None), now(a=[1, (2, "
       "'x',), {\"k\": -1.5}], b = \"\\x41\\u00e9\\d\")]"
       "<|tool_call_end|>Calling.",
       "call 0 weather #call_r1_0\narguments {\"city\": \"O's \\\"lo\\\"\\n\", \"days\": 3, \"exact\": true, "
       "\"note\": null}\nend 0\n"
       "call 1 now #call_r1_1\narguments {\"a\": [1, [2, \"x\"], {\"k\": -1.5}], \"b\": "
       "\"\\u0041\\u00e9\\\\d\"}\nend 1\n"
       "content \"Calling.\"\n"},
      {kLfm, "", "<|tool_call_start|>[{\"name\": \"now\", \"arguments\": {}}]<|tool_call_end|>",
       "call 0 now #call_r1_0\narguments {}\nend 0\n"},

      // Broken before the name is known: the text is content.
      {kHermes, "", "a\n\n<tool_call>\nnot json\n</tool_call>\n",
       "content \"a\\n\\n<tool_call>\\nnot json\\n</tool_call>\\n\"\n"},
      {kHermes, "", "<tool_call>\n<tool_call>\n{\"name\": \"now\"}\n</tool_call>",
       "content \"<tool_call>\"\ncall 0 now #call_r1_0\narguments {}\nend 0\n"},
      {kHermes, "", "<tool_call>{\"nom\": 1}</tool_call>",
       "content \"<tool_call>{\\\"nom\\\": 1}</tool_call>\"\n"},
      {kHermes, "", "<tool_call>{\"name\": 1}", "content \"<tool_call>{\\\"name\\\": 1}\"\n"},
      {kHermes, "", "<tool_call>{\"name\": \"\"}", "content \"<tool_call>{\\\"name\\\": \\\"\\\"}\"\n"},
      {kXml, "", "<tool_call>\n<func>", "content \"<tool_call>\\n<func>\"\n"},
      {kXml, "", "<tool_call>\n</tool_call>", "content \"<tool_call>\\n</tool_call>\"\n"},
      {kKimi, "", "<|tool_calls_section_begin|><|tool_calls_section_end|>",
       "content \"<|tool_calls_section_begin|><|tool_calls_section_end|>\"\n"},
      {kLfm, "", "<|tool_call_start|>[now[1]]", "content \"<|tool_call_start|>[now[1]]\"\n"},

      // Broken later: the call ends where it is.
      {kHermes, "", "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": 'b'}}</tool_call>",
       "call 0 now #call_r1_0\narguments {\"a\": \nend 0\ncontent \"'b'}}</tool_call>\"\n"},
      {kHermes, "", "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": 1</tool_call>\nx",
       "call 0 now #call_r1_0\narguments {\"a\": 1\nend 0\ncontent \"x\"\n"},
      {kHermes, "", "<tool_call>{\"name\": \"now\", \"arguments\": {}} so</tool_call>",
       "call 0 now #call_r1_0\narguments {}\nend 0\ncontent \" so</tool_call>\"\n"},
      {kXml, "", "<tool_call>\n<function=now>\n<parameter=a>\n1\n</parameter>\nso\n</function>",
       "call 0 now #call_r1_0\narguments {\"a\": 1\nend 0\ncontent \"so\\n</function>\"\n"},
      {kLfm, "", "<|tool_call_start|>[now(1)]<|tool_call_end|>",
       "call 0 now #call_r1_0\nend 0\ncontent \"1)]<|tool_call_end|>\"\n"},

      // Truncated by the token limit.
      {kHermes, "", "Hi\n<tool_call>\n{\"name\": \"we",
       "content \"Hi\\n<tool_call>\\n{\\\"name\\\": \\\"we\"\n"},
      {kHermes, "", "Hi\n<tool_ca", "content \"Hi\\n<tool_ca\"\n"},
      {kHermes, "", "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"b",
       "call 0 now #call_r1_0\narguments {\"a\": \"b\nend 0\n"},
      {kHermes, "", "<tool_call>{\"name\": \"now\", \"arguments\": \"{\\\"a",
       "call 0 now #call_r1_0\narguments \"{\\\"a\nend 0\n"},
      {kHermes, "", "<tool_call>{\"name\": \"now\"}\n</tool", "call 0 now #call_r1_0\narguments {}\nend 0\n"},
      {kXml, "", "<tool_call>\n<function=weather>\n<parameter=city>\nOs\n</par",
       "call 0 weather #call_r1_0\narguments {\"city\": \"Os\\n</par\nend 0\n"},
      {kXml, "", "<tool_call>\n<function=weather>\n<parameter=days>\n1",
       "call 0 weather #call_r1_0\narguments {\"days\": 1\nend 0\n"},
      {kDeepSeekPlain, "", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}\n",
       "call 0 now #call_r1_0\narguments {}\nend 0\n"},
      {kLfm, "", "<|tool_call_start|>[now(a=12", "call 0 now #call_r1_0\narguments {\"a\": 12\nend 0\n"},
  };
  return all;
}

}  // namespace reprise::protocol::test
