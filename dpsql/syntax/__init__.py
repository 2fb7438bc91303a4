"""From text to trees and back."""
