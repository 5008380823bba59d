"""What a member is made with, checked: arguments, the environment, and the settings of its protocol."""
