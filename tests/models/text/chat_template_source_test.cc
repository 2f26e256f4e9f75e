// Where a model's chat template is found.

#include "models/text/chat_template_source.h"

#include <gtest/gtest.h>

#include "models/files/load_error.h"
#include "tests/models/files/checkpoint_files.h"

namespace reprise::models {
namespace {

TEST(ChatTemplateSource, AFileOfItsOwnWinsOverTheConfigurations) {
  const test::TempDir folder;
  EXPECT_EQ(load_chat_template(folder.path()), std::nullopt);
  folder.write("tokenizer_config.json", R"({"chat_template": "from tokenizer_config"})");
  EXPECT_EQ(load_chat_template(folder.path()), "from tokenizer_config");
  folder.write("chat_template.json", R"({"chat_template": "from json"})");
  EXPECT_EQ(load_chat_template(folder.path()), "from json");
  folder.write("chat_template.jinja", "{{ messages }}\n");
  EXPECT_EQ(load_chat_template(folder.path()), "{{ messages }}\n");
  folder.write("chat_template.jinja", "");
  EXPECT_EQ(load_chat_template(folder.path()), "");
}

TEST(ChatTemplateSource, OfNamedOnesTheDefaultCounts) {
  const test::TempDir folder;
  folder.write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]})");
  EXPECT_EQ(load_chat_template(folder.path()), "d");
  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "t"}]})");
  EXPECT_EQ(load_chat_template(folder.path()), std::nullopt);
  folder.write("tokenizer_config.json", R"({"chat_template": null})");
  EXPECT_EQ(load_chat_template(folder.path()), std::nullopt);
}

TEST(ChatTemplateSource, WhatMakesNoSenseIsRefused) {
  const test::TempDir folder;
  folder.write("tokenizer_config.json", R"({"chat_template": 7})");
  EXPECT_THROW(load_chat_template(folder.path()), LoadError);
  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "default"}]})");
  EXPECT_THROW(load_chat_template(folder.path()), LoadError);
  folder.write("chat_template.jinja", std::string(kMaxTemplateBytes + 1, 'x'));
  EXPECT_THROW(load_chat_template(folder.path()), LoadError);
  EXPECT_THROW(load_chat_template(folder.path() / "nothing"), LoadError);
}

TEST(ChatTemplateSource, GgufFilesHaveItInTheirMetadata) {
  const test::TempDir folder;
  test::GgufWriter writer;
  writer.text("general.architecture", "llama");
  EXPECT_EQ(load_chat_template(folder.write("without.gguf", writer.bytes())), std::nullopt);
  writer.text("tokenizer.chat_template", "{{ bos_token }}");
  EXPECT_EQ(load_chat_template(folder.write("with.gguf", writer.bytes())), "{{ bos_token }}");
}

}  // namespace
}  // namespace reprise::models
