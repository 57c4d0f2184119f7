# Turns the policy lists into C++ arrays when CMake configures (again whenever the lists change), so that
# uks parses no data file at start.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             ${CMAKE_SOURCE_DIR}/tools/data/policy.json ${CMAKE_SOURCE_DIR}/tools/gen_policy.py)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/gen)
execute_process(
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/gen_policy.py
          ${CMAKE_SOURCE_DIR}/tools/data/policy.json ${CMAKE_BINARY_DIR}/gen/policy_data.inc
  COMMAND_ERROR_IS_FATAL ANY)
