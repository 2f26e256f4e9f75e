#pragma once
// The folder of outside answers, under the name that the tests of models use.

#include "tests/oracle_folder.h"

namespace reprise::models::test {
using reprise::test::files_in;
using reprise::test::oracle;
using reprise::test::oracle_folder;
}  // namespace reprise::models::test
