#pragma once
// EXPECT_LOAD_ERROR(statement, "part"): the statement throws a LoadError whose message contains "part".

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "models/files/load_error.h"

namespace reprise::models::test {

template <class Statement>
testing::AssertionResult says(Statement statement, std::string_view part) {
  try {
    statement();
  } catch (const LoadError& error) {
    if (std::string_view(error.what()).find(part) != std::string_view::npos)
      return testing::AssertionSuccess();
    return testing::AssertionFailure() << "\"" << error.what() << "\" does not say \"" << part << "\" ";
  }
  return testing::AssertionFailure() << "nothing was thrown that says \"" << part << "\" ";
}

}  // namespace reprise::models::test

#define EXPECT_LOAD_ERROR(statement, part) \
  EXPECT_TRUE(::reprise::models::test::says([&] { statement; }, part))
